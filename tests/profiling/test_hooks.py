"""Functions of Python that are exchanged while a profile runs."""

from __future__ import annotations

import extempo as ex
from extempo import nn, optim
from extempo.profiling import sites
from extempo.profiling.hooks import Exchange, hooks


def test_all_hooks_are_functions_that_exist():
    import extempo.batching.api
    import extempo.data  # noqa: F401 # they are hooked once they are loaded

    found = hooks()
    assert {hook.kind for hook in found} >= {sites.MODULE, sites.BACKWARD, sites.OPTIMIZER, sites.DATA, sites.BATCH}
    for hook in found:
        assert callable(vars(hook.owner)[hook.attribute]), hook


def test_an_optimizer_of_the_users_has_a_hook():
    class Mine(optim.Optimizer):
        def step(self, closure=None):
            """Nothing."""

    assert any(hook.owner is Mine for hook in hooks())


def test_what_somebody_else_put_there_since_stays():
    own = nn.Module.__call__
    exchange = Exchange(lambda hook, fn: lambda *args, **kwargs: fn(*args, **kwargs))
    try:
        assert nn.Linear(1, 1)(ex.ones(1)).shape == (1,)
        put = nn.Module.__call__ = lambda self, x: 3
    finally:
        exchange.end()
    assert nn.Module.__call__ is put
    nn.Module.__call__ = own
