"""Words for messages."""

from __future__ import annotations

import re

import pytest

import extempo as ex
from extempo import nn
from extempo.core.wording import counted, did_you_mean, input_misfit, pair_misfit
from extempo.errors import DtypeError


@pytest.mark.parametrize(
    ("n", "told"), [(0, "0 batches"), (1, "1 batch"), (2, "2 batches"), (12_000, "12,000 batches")]
)
def test_a_noun_agrees_with_its_number(n, told):
    assert counted(n, "batch", "batches") == told
    assert counted(n, "step") == told.replace("batches", "steps").replace("batch", "step")


def test_the_nearest_name_is_offered_and_a_distant_one_is_not():
    assert did_you_mean("val_loss", ["train_loss", "valid_loss"]) == "; did you mean 'valid_loss'?"
    assert did_you_mean("perplexity", ["train_loss", "valid_loss"]) == ""
    assert did_you_mean("anything", []) == ""


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        (ex.float64, "convert the input: x.float(), or the whole model: model.double()"),
        (ex.float16, "convert the input: x.float(), or the whole model: model.half()"),
        (ex.int64, "convert the input: x.float()"),
        (ex.uint8, "convert the input: x.float(), or for pixels x.float() / 255"),
    ],
)
def test_an_input_follows_the_weight(given, hint):
    assert input_misfit("linear", given, "weight", ex.float32) == (
        f"linear: input is {given} but weight is extempo.float32; {hint}"
    )
    with pytest.raises(DtypeError, match=re.escape(hint)):
        nn.Linear(3, 2)(ex.ones(4, 3, dtype=given))
    with pytest.raises(DtypeError, match=re.escape(hint)):
        nn.Conv1d(3, 2, 1)(ex.ones(4, 3, 5, dtype=given))
    with pytest.raises(DtypeError, match=re.escape(hint)):
        nn.GRU(3, 2)(ex.ones(4, 3, dtype=given))


def test_of_two_tensors_whole_numbers_follow_floats():
    assert pair_misfit("matmul", ex.int64, ex.float32).endswith("convert the first: x.float()")
    assert pair_misfit("matmul", ex.float32, ex.int8).endswith("convert the second: y.float()")
    both = "convert the first: x.double(), or the second: y.float()"
    assert pair_misfit("matmul", ex.float32, ex.float64).endswith(both)
    assert pair_misfit("matmul", ex.int8, ex.int64).endswith(
        "convert the first: x.long(), or the second: y.to(ex.int8)"
    )
    with pytest.raises(DtypeError, match=re.escape(both)):
        ex.ones(2, 2) @ ex.ones(2, 2, dtype=ex.float64)
