"""Constraints that depend on others, or are made of them."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.distributions import Distribution, constraints
from extempo.errors import ShapeError, UnsupportedError


def test_a_constraint_shows_its_bounds_and_the_shape_of_long_ones():
    assert repr(constraints.interval(0.0, ex.tensor(2.0))) == "Interval(lower_bound=0.0, upper_bound=2.0)"
    assert repr(constraints.greater_than(ex.zeros(3))) == "GreaterThan(lower_bound=<tensor of shape (3,)>)"
    assert (constraints.real.event_dim, constraints.real.is_discrete) == (0, False)


def test_what_depends_on_an_instance_cannot_be_asked_of_the_class():
    vector = constraints.dependent(event_dim=1)
    assert constraints.is_dependent(vector)
    assert vector.event_dim == 1
    assert vector(is_discrete=True).event_dim == 1
    with pytest.raises(UnsupportedError, match="is_discrete of this constraint is known of an instance only"):
        _ = vector.is_discrete
    with pytest.raises(UnsupportedError, match=r"use distribution\.support"):
        vector.check(ex.zeros(1))


def test_a_dependent_property_is_a_constraint_on_the_class_and_a_property_on_instances():
    class Grid(Distribution):
        arg_constraints = {}  # noqa: RUF012 - as distributions written for PyTorch state it
        size = 3

        @constraints.dependent_property(is_discrete=True, event_dim=0)
        def support(self):
            return constraints.integer_interval(0, self.size - 1)

    assert constraints.is_dependent(Grid.support)
    assert Grid.support.is_discrete
    assert Grid().support.check(ex.tensor([2.0, 3.0])).tolist() == [True, False]


def test_an_event_lies_inside_when_all_of_its_numbers_do():
    positive = constraints.independent(constraints.positive, 1)
    assert positive.event_dim == 1
    assert positive.check(ex.tensor([[1.0, 2.0], [1.0, -2.0]])).tolist() == [True, False]
    assert positive.check(ex.ones(2, 0)).tolist() == [True, True]
    assert constraints.independent(constraints.boolean, 0).check(ex.tensor([1.0, 2.0])).tolist() == [True, False]
    with pytest.raises(ShapeError, match="independent: expected at least 1 dimensions"):
        positive.check(ex.tensor(1.0))


def test_a_mixture_holds_what_every_component_holds():
    upper = constraints.less_than(ex.tensor([1.0, 3.0]))
    assert constraints.MixtureSameFamilyConstraint(upper).check(ex.tensor([0.5, 2.0])).tolist() == [True, False]
