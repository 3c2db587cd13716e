"""Names of parameters and modules."""

from __future__ import annotations

import extempo as ex
from extempo import nn
from extempo.inspect.owners import forget_paths, models_of, named_parameters, running_path, variables


def test_parameters_are_named_by_the_model_that_has_them_though_nobody_gave_it():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 1)))
    used = variables(ex.Graph.of(model(ex.ones(1, 2)).sum()))
    assert models_of(used) == [model]
    assert [name for name, _ in named_parameters(None, used)] == ["0.weight", "0.bias", "1.0.weight", "1.0.bias"]


def test_leaves_of_no_model_are_numbered():
    w = ex.ones(2, requires_grad=True)
    assert named_parameters(None, [w]) == [("leaf 0", w)]
    assert models_of([]) == []


def test_the_path_of_the_module_that_runs_is_known_inside_of_it():
    seen = []

    class Spy(nn.Module):
        def forward(self, x):
            seen.append(running_path())
            return x

    nn.Sequential(nn.Identity(), nn.Sequential(Spy()))(ex.ones(1))
    assert seen == ["1.0"]
    assert running_path() == ""
    forget_paths()


def test_objects_that_stand_for_others_are_not_asked_for_their_class():
    class Proxy:
        @property
        def __class__(self):
            raise RuntimeError("asked")

    standing = [Proxy()]
    assert models_of([ex.ones(1, requires_grad=True)]) == []
    assert standing
