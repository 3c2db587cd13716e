"""Memory that is handed out, memory that a tensor gives up for other memory, and what a view knows of its base."""

from __future__ import annotations

import pytest

import extempo as ex

from .agreement import CALLS, agree, agree_on_calls, draw, error_of, grads


@pytest.mark.parametrize(
    "memory",
    [lambda x: x.numpy(), lambda x: x.T.numpy().T, lambda x: ex.from_dlpack(x).numpy()],
    ids=["numpy", "a view", "dlpack"],
)
def test_an_argument_is_written_through_its_array(memory):
    def f(x):
        y = x * 2
        memory(x)[0] = 5.0
        z = x + y
        memory(x)[1] = 7.0
        return y, z, x * 1

    agree_on_calls(f, lambda i: (draw(i, 3, 4),))


def test_a_recorded_value_is_written_through_its_array():
    def scenario(wrap):
        w = draw(3, 4, grad=True)

        def f(x):
            y = x * w
            y.detach().numpy()[0] = 5.0
            z = y + 1
            y.detach().numpy()[1] = 7.0
            return y, z

        run = wrap(f)
        for i in range(CALLS):
            y, z = run(draw(i, 3, 4))
            z.sum().backward()
            yield y, z, grads(w)

    agree(scenario)


def test_an_argument_is_written_through_its_array_while_the_result_waits():
    def scenario(wrap):
        w = draw(3, 4, grad=True)
        run = wrap(lambda x: (x + w).exp())
        for i in range(CALLS):
            x = draw(i, 3, 4)
            y = run(x)
            x.numpy()[:] = 0.0
            y.sum().backward()
            yield y, grads(w)

    agree(scenario)


@pytest.mark.parametrize("inside", [True, False])
def test_a_view_of_a_leaf_stays_what_it_was_when_the_leaf_gets_other_memory(inside):
    def scenario(wrap):
        w = draw(3, 3, 4, grad=True)

        def f(k):
            views = w[k], w.T
            if inside:
                w.data = draw(k, 3, 4)
            return *views, w * 1

        run = wrap(f)
        for i in range(CALLS):
            row, turned, values = run(i % 3)
            w.data = draw(i, 3, 4)
            yield row, turned, values
            (row.sum() + turned.sum() + values.sum()).backward()
            yield grads(w)

    agree(scenario)


def test_a_view_of_an_argument_stays_what_it_was_when_the_argument_changes_its_shape():
    def scenario(wrap):
        w = draw(3, 3, 4, grad=True)
        run = wrap(lambda x, k: x[k])
        for i in range(CALLS):
            x = w * 2
            row = run(x, i % 3)
            x.unsqueeze_(0)
            yield row, x
            (row.sum() + x.sum()).backward()
            yield grads(w)

    agree(scenario)


def test_a_recorded_view_knows_its_base():
    def scenario(wrap):
        w = draw(3, 4, grad=True)

        def f(x, y):
            return [
                (view._is_view(), view._base is base)
                for base in (x, y, x * 2, y * 2)
                for view in (base[0], base.T, base.reshape(-1), base.T[1], base.detach(), base.clone())
            ]

        run = wrap(f)
        for i in range(CALLS):
            yield run(draw(i, 3, 4), draw(i, 3, 4) * w)

    agree(scenario)


def test_a_recorded_view_cannot_be_detached_in_place():
    def scenario(wrap):
        w = draw(3, 4, grad=True)
        kept = []

        def f(x):
            kept[:] = [(x * 2)[0], (x * w)[0], x * w]
            return [error_of(t.detach_) for t in kept]

        run = wrap(f)
        for i in range(CALLS):
            yield run(draw(i, 3, 4)), kept

    agree(scenario)


def test_the_base_of_a_view_that_was_taken_outside_has_its_graph():
    """A view is all that is held of a value that waits, and is written to."""

    def scenario(wrap):
        w = draw(3, 4, grad=True)
        run = wrap(lambda x: (w * x).sum(0, keepdim=True) * 3)
        for i in range(CALLS):
            view = run(draw(i, 3, 4)).expand(1, 4)
            other = view.squeeze()
            view.mul_(2)
            loss = (view * other).sum()
            loss.backward()
            yield view, other, loss, grads(w)

    agree(scenario)
