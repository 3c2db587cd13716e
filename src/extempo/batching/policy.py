"""Whether a call of `ex.batch` runs in batches or as a plain loop: by what the last run did and by core/costs.py.

The policy that EXTEMPO_POLICY chooses for compiled functions decides here, too: auto compares the two, always batches,
never loops.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import inf
from typing import Any

from ..core import costs
from ..core.weak import WeakTable
from ..tracing.policy import new_policy
from .agenda import Calls
from .sizes.forms import SizedKind
from .sizes.products import ProductForm

# Calls that are plain loops after one whose batches did not pay; doubled each time. One that tries again takes as long
# as 10 to 40 of them, and all together may take a tenth more than loops.
ASIDE, LONGEST_ASIDE = 1_023, 8_191

LOOPS = 63  # calls that are plain loops after one for which lockstep would not have paid; sizes may be others then

Batch = tuple[Calls, Any, int]  # with the numbers of the calls that ran as one, and the wave


def run_cost(batches: Iterable[Batch], n_samples: int) -> tuple[float, float]:
    """Seconds (in batches, as a loop) of a run that did these, without what both do alike."""
    batched, looped = n_samples * costs.SAMPLE, 0.0
    for calls, members, _ in batches:
        kind, n = calls.kind, len(members)
        tracked = any(kind.tracked)
        one, each = costs.BATCH, costs.BATCHED_CALL
        if isinstance(kind, SizedKind) and not kind.alone:
            one, each = costs.SIZED_BATCH, costs.SIZED_PRODUCT if kind.form is ProductForm else each
            if kind.n_ops > 1:  # a layer runs op by op
                batched += kind.n_ops * costs.SIZED_LAYER_OP[tracked]
        batched += n * each[tracked] + one[tracked] * (n if kind.alone else 1)
        looped += n * kind.n_ops * costs.LOOPED_OP[tracked]
    return batched, looped


class Outlook:
    """What is to be expected of batching a function on about so many samples."""

    def __init__(self) -> None:
        self.calls_aside = 0  # that will be plain loops, because batches were too small to pay
        self._next_aside = ASIDE
        self._at_once = False  # those calls need not look whether they could run in lockstep
        self._policy = new_policy()

    def prefers(self, together: float, looped: float) -> bool:
        """Whether samples run together if that takes so long, rather than as a loop that takes so long."""
        return self._policy.prefers(together, looped)

    def loop_is_better(self) -> None:
        """Than lockstep, for a function that could run so."""
        self.calls_aside, self._at_once = LOOPS, True

    def loops_next(self) -> bool:
        """Whether the next call is a plain loop, whatever it could be; counts it if so."""
        self._at_once &= self.calls_aside > 0
        self.calls_aside -= self._at_once
        return self._at_once

    def batches_next(self) -> bool:
        """Whether the next call runs in batches; counts it. Where nothing is known that is tried."""
        if self.calls_aside:
            self.calls_aside -= 1
            return False
        return self._policy.prefers(0.0, inf)

    def ran(self, batches: Collection[Batch], n_samples: int) -> None:
        """A call on so many samples ran in these."""
        if not batches or self._policy.prefers(*run_cost(batches, n_samples)):
            self.calls_aside, self._next_aside = 0, ASIDE
        else:
            self.calls_aside, self._next_aside = self._next_aside, min(2 * self._next_aside + 1, LONGEST_ASIDE)


# Of modules and code, so that it lasts where ex.batch(fn) is written inside a training step.
_OUTLOOKS: WeakTable[Any, dict[int, Outlook]] = WeakTable()


def outlooks_of(fn: Any) -> dict[int, Outlook]:
    """By how many bits the number of samples has."""
    method = getattr(fn, "__func__", fn)
    key = getattr(method, "__code__", fn)
    try:
        return _OUTLOOKS.setdefault(key, {})
    except TypeError:  # cannot be referred to weakly
        return {}
