"""Native cross entropy and its gradient against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

import extempo as ex
from extempo.backends.llvm.routines import row_losses
from extempo.ops import class_loss_ops

from ..guarded import call
from .oracle import FLOATS, LAYOUTS, check, draw

# ---- cross entropy

REDUCTIONS = ["none", "sum", "mean"]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("shape", "dim"), LAYOUTS)
def test_cross_entropy_and_its_gradient_in_every_layout(shape, dim, reduction, dtype):
    rng = np.random.default_rng(0)
    rest = (*shape[:dim], *shape[dim + 1 :])
    target = rng.integers(0, shape[dim], size=rest)
    ignore = int(target.flat[0]) if target.size > 2 and shape[dim] > 1 else -100
    logits = draw(shape, dtype) * 3
    attrs = {"dim": dim, "reduction": reduction}
    (loss,) = check("cross_entropy", logits, target, ignore, **attrs)
    g = draw(loss.shape, dtype, 1)
    check("cross_entropy_backward", g, logits, target, ignore, **attrs)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_number_is_a_target(reduction):
    logits, g = draw(11), draw(())
    attrs = {"dim": 0, "reduction": reduction}
    check("cross_entropy", logits, 3, -100, **attrs)
    check("cross_entropy_backward", g, logits, 3, -100, **attrs)


@pytest.mark.parametrize("wrong", [3, -1, 2**40, -(2**60)])
def test_a_target_that_names_no_class_is_declined(wrong):
    logits, target = draw((20, 3)), np.zeros(20, np.int64)
    for place in (0, 7, 8, 19):
        target[:] = 0
        target[place] = wrong
        for reduction in REDUCTIONS:
            assert call("cross_entropy", logits, target, -100, dim=1, reduction=reduction) is None
        assert call("cross_entropy", logits, target, wrong, dim=1, reduction="mean") is not None
    with pytest.raises(ex.errors.IndexRangeError, match="names no class"):
        class_loss_ops.CrossEntropy.numpy(logits, target, -100, dim=1, reduction="mean")


def test_the_mean_of_nothing_is_nan():
    (loss,) = call("cross_entropy", draw((4, 3)), np.full(4, 9), 9, dim=1, reduction="mean")
    assert np.isnan(loss)


def test_many_samples_are_split_by_size_alone():
    n = 3 * row_losses.WITH_EXP // 100
    logits, target = draw((n, 100)), np.random.default_rng(0).integers(0, 100, size=n)
    check("cross_entropy", logits, target, -100, dim=1, reduction="mean")
    check("cross_entropy_backward", np.array(1, np.float32), logits, target, -100, dim=1, reduction="mean")
