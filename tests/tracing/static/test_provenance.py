"""What a tensor of the recorded call is: from outside, made in it, or kept where it must not be."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.errors import GraphError
from extempo.tracing.static.provenance import AskedFor, Provenance

from ..agreement import needs_native_code
from .static_agreement import WAYS, going, static

pytestmark = needs_native_code


@pytest.fixture(params=WAYS)
def way(request):
    with going(request.param):
        yield


@pytest.mark.usefixtures("way")
def test_a_tensor_that_is_kept_outside_is_refused():
    kept = []

    @static
    def f(x):
        y = x * 2
        kept.append(y)
        return y + 1

    with pytest.raises(GraphError, match=r"kept after the call.*copy_"):
        f(ex.ones(2))


def test_what_is_known_of_a_tensor_does_not_keep_it():
    x = ex.ones(2)
    known = Provenance(x, 3)
    assert known.ref() is x
    assert (known.slot, known.constant, known.recorded, known.where) == (3, False, None, None)
    del x
    assert known.ref() is None


def test_a_gradient_that_was_asked_for_holds_until_something_is_done():
    x, g = ex.ones(2), ex.zeros(2)
    asked = AskedFor(4, x, g)
    assert asked.holds(4, x, g)
    assert not asked.holds(5, x, g)
    assert not asked.holds(4, g, g)
    assert not asked.holds(4, x, None)


def test_a_gradient_that_is_read_twice_is_one_action():
    w = ex.ones(3, requires_grad=True)

    def fn(x):
        w.grad = None
        (x * w).sum().backward()
        return w.grad.sum() + w.grad.mean()

    with going("op by op"):
        run = static(fn)
    for k in (1.0, 2.0):
        assert run(ex.ones(3) * k).item() == 4.0 * k
