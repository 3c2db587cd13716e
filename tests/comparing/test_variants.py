"""A step with its batches, in one mode or another."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.comparing.variants import FEWEST_STEPS, Runner, Variant, loss_of, same_weights
from extempo.errors import DtypeError, UnsupportedError

from .steps import batches, training


def test_the_loss_is_found_in_what_a_step_returns():
    assert loss_of(ex.tensor(2.0)) == 2.0
    assert loss_of((ex.tensor(2.0), "more")) == 2.0
    assert loss_of({"loss": 1.5}) == 1.5
    assert loss_of(None) is None
    assert loss_of(ex.ones(3)) is None


def test_batches_are_repeated_up_to_a_round_and_cut_at_the_steps_asked_for():
    _, _, step = training()
    assert len(Variant("step", step, batches()).batches) == FEWEST_STEPS
    short = Variant("step", step, batches(), n_steps=3)
    assert (len(short.batches), short.n_different) == (3, 3)
    assert short.arguments[0] == short.batches[0]


def test_what_cannot_be_compared_is_refused():
    _, _, step = training()
    with pytest.raises(DtypeError, match="pass a function"):
        Variant("step", 3, batches())
    with pytest.raises(ValueError, match="no batches"):
        Variant("step", step, [])
    with pytest.raises(UnsupportedError, match="uses no module"):
        Variant("step", lambda x, y: None, batches())
    with pytest.raises(ValueError, match="the modes are"):
        Runner(Variant("step", step, batches()), "fast")


def test_weights_of_the_same_names_are_copied():
    (first, _, step), (second, _, other) = training(), training()
    with ex.no_grad():
        second[0].weight.zero_()
    assert same_weights(Variant("a", step, batches()), Variant("b", other, batches()))
    assert ex.equal(first[0].weight, second[0].weight)


def test_a_runner_returns_the_loss_of_a_step():
    _, _, step = training()
    for mode in ("eager", "compile"):
        runner = Runner(Variant("step", step, batches()), mode)
        with runner.inside():
            assert isinstance(runner.run(0), float)


def test_fewer_steps_are_taken_from_all_over_the_data():
    model = ex.nn.Linear(1, 1)
    data = [(ex.full((1, 1), float(i)),) for i in range(10)]
    made = Variant("step", lambda x: model(x).sum(), data, state=[model])
    assert made.may_shorten
    made.shorten(4)
    assert [batch[0].item() for batch in made.batches] == [0.0, 2.0, 5.0, 7.0]
    assert len(made.arguments) == made.n_different == 4
    few = Variant("step", lambda x: model(x).sum(), data[:3], state=[model])
    few.shorten(5)
    assert [batch[0].item() for batch in few.batches] == [0.0, 1.0, 2.0, 0.0, 1.0]
    assert few.n_different == 3
