"""Functions whose size values decide, in programs: the same as eagerly, at sizes that values make 0 and 1 too."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex


def halves(x):
    return (x * 2).round()


def assigned(x):
    y = x.clone()
    y[y > 0] = y[y > 0] * 2
    return y


def of_rows(x):
    y = ex.stack([x, -x], 1)
    return y[x > 0] @ ex.ones(2, 3), y[y > 0]


def twice(x):
    y = x[x > 0]
    return y[y < 1]


FUNCTIONS = {
    "mask": lambda x: x[x > 0] * 2,
    "mask in a sum": lambda x: x[x > 0].sum() / (x > 0).sum(),
    "nonzero": lambda x: ex.nonzero(x > 0.5),
    "argwhere": lambda x: ex.argwhere(ex.stack([x, x - 1]) > 0),
    "nonzero as a tuple": lambda x: ex.nonzero(x > 0.5, as_tuple=True)[0] + 1,
    "where": lambda x: ex.where(x > 0.5)[0],
    "masked_select": lambda x: ex.masked_select(x, x < 0).exp(),
    "unique": lambda x: ex.unique(halves(x), return_inverse=True, return_counts=True),
    "unique of rows": lambda x: ex.unique(ex.stack([halves(x), halves(x)]), return_inverse=True)[1],
    "unique_consecutive": lambda x: ex.unique_consecutive(x > 0, return_counts=True),
    "repeat_interleave": lambda x: ex.repeat_interleave(x, (x.abs() * 3).long()),
    "repeat_interleave of counts": lambda x: ex.repeat_interleave((x.abs() * 3).long()),
    "bincount": lambda x: ex.bincount((x.abs() * 4).long()),
    "bincount with weights": lambda x: ex.bincount((x.abs() * 4).long(), x, minlength=3),
    "masked_scatter": lambda x: ex.masked_scatter(x, x > 0, x * 0 + 7),
    "assignment": assigned,
    "rows": of_rows,
    "one after the other": twice,
    "two joined": lambda x: ex.cat([x[x > 0], x[x < 0]]),
    "its size alone": lambda x: x * x[x > 0].shape[0],
}


def flat(result):
    return [result] if isinstance(result, ex.Tensor) else [r for r in result if isinstance(r, ex.Tensor)]


def examples(seed):
    draws = np.random.default_rng(seed)
    for n in (0, 1, 1, 2, 5, 9, 9, 17):
        yield draws.normal(size=n).astype(np.float32)


def exported(name):
    return ex.program(FUNCTIONS[name], ex.tensor([0.3, -1.2, 2.0, 0.7, 0.1]), dynamic={"x": {0: "n"}})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_program_gives_what_the_function_gives(name, tmp_path):
    program = exported(name)
    program.save(str(tmp_path / "m.extempo"))
    for run in (program, ex.load_program(str(tmp_path / "m.extempo")), program.module()):
        for x in map(ex.tensor, examples(0)):
            for ours, theirs in zip(flat(run(x)), flat(FUNCTIONS[name](x)), strict=True):
                assert ours.shape == theirs.shape
                assert ex.allclose(ours.double(), theirs.double(), equal_nan=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_onnxruntime_agrees(name):
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx")
    import io

    file = io.BytesIO()
    exported(name).to_onnx(file)
    session = onnxruntime.InferenceSession(file.getvalue())
    for seed in range(4):
        for x in examples(seed):
            found = session.run(None, {"x": x})
            for ours, theirs in zip(found, flat(FUNCTIONS[name](ex.tensor(x))), strict=True):
                assert ours.shape == tuple(theirs.shape)
                np.testing.assert_allclose(ours, theirs.numpy(), 1e-5, 1e-6)


def test_gradients_flow_through_a_mask():
    program = ex.program(lambda x: (x[x > 0] ** 2).sum(), ex.tensor([1.0, -1.0, 2.0]), dynamic={"x": {0: "n"}})
    x = ex.tensor([3.0, -4.0, 5.0, 1.0], requires_grad=True)
    program.module()(x).backward()
    assert x.grad.tolist() == [6.0, 0.0, 10.0, 2.0]


def test_inside_a_loop_the_error_names_the_line_and_what_to_do():
    def fn(x):
        total = ex.zeros(())
        for row in x:
            total = total + row[row > 0].sum()
        return total

    with pytest.raises(ex.errors.ExportError, match=r"test_found_sizes.py:\d+: .* outside of its branches and loops"):
        ex.program(fn, ex.randn(4, 3), dynamic={"x": {0: "n"}})
