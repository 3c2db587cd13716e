"""From a program's graph to nodes: errors with the line, ops made of others, sizes as numbers among inputs."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import extempo as ex
from extempo.core.op import REGISTRY, Decomposed, Refuse
from extempo.exporting.onnx_export.rules import RULES

from .agreement import Exported, agree_on_many, normal


def test_an_op_without_a_form_is_named_with_the_line_that_called_it():
    def values_of(x):
        y = x @ x.T
        return ex.linalg.eigvalsh(y)

    line = inspect.getsourcelines(values_of)[1] + 2
    with pytest.raises(
        ex.errors.ExportError, match=rf"test_walker\.py:{line}: to_onnx: the op eigvalsh has no ONNX form"
    ):
        Exported(ex.program(values_of, ex.randn(3, 3)))


def test_an_op_inside_a_loop_is_named_as_well():
    def drawn(x):
        return ex.scan(lambda c, row: (c, row + ex.rand(2)), ex.tensor(0.0), x)[1]

    with pytest.raises(ex.errors.ExportError, match=r"random_uniform.*generator"):
        Exported(ex.program(drawn, ex.ones(3, 2), check=False))


def test_every_form_is_a_function_a_known_word_or_a_stated_reason():
    for name, op in REGISTRY.items():
        known = callable(op.onnx) or isinstance(op.onnx, Decomposed | Refuse) or op.onnx in RULES
        assert known, name
        assert not (isinstance(op.onnx, Refuse) and op.onnx.why.startswith("not yet")), name


def test_at_least_95_percent_of_the_ops_have_a_form():
    from extempo.core.op import GRADIENTS_ONLY
    from extempo.ops.draws import RANDOM

    nodes = {"leaf", "once_differentiable", "pick", "traced"}
    counted = [op for name, op in REGISTRY.items() if name not in nodes and op.onnx not in (RANDOM, GRADIENTS_ONLY)]
    n_mapped = sum(not isinstance(op.onnx, Refuse) for op in counted)
    assert n_mapped >= 0.95 * len(counted)


def test_sizes_among_the_inputs_of_an_op_are_numbers_of_its_dtype():
    def mean(x):
        return x.sum(0) / x.shape[0] + x.shape[0] // 2

    agree_on_many(mean, ex.ones(4, 3), lambda rng, n: (normal(rng, n + 1, 3),), {"x": {0: "n"}}, n=20)


def test_an_op_made_of_others_keeps_open_sizes():
    def arranged(x):
        return x.roll(2, 0).diagonal(1), x.unfold(0, 2, 1), x.sort(0)[0], x.median(1)[0], x.cumprod(0)

    exported = Exported(ex.program(arranged, ex.randn(5, 7), dynamic={"x": {0: "n"}}, check=False))
    rng = np.random.default_rng(0)
    for n in (2, 3, 6):
        exported.agree(normal(rng, n, 7))


def test_a_form_that_was_decided_by_an_open_size_is_an_error(monkeypatch):
    monkeypatch.setattr(REGISTRY["taps"], "onnx", Decomposed(lambda x, *rest, dim: x if x.shape[0] > 9 else -x))
    program = ex.program(
        lambda x: ex.nn.functional.interpolate(x, size=4, mode="linear"), ex.randn(2, 3, 6), dynamic={"x": {0: "n"}}
    )
    with pytest.raises(ex.errors.ExportError, match="depends on whether n > 9"):
        Exported(program)
