"""Which calls go together: those of one op at several sizes that one line has made.

`put_together` takes the calls that wait for a flush and hands back fewer: where kinds that share a line are one op at
several sizes, their calls become calls of one `SizedKind`. From then on such calls are recorded there at once, also
those of sizes that come up later (`adopt`). Calls of different lines stay apart unless they are of one kind: a sum over
the rows of a sentence and one inside a loop may be the same op, but they run at different times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from ...core.cache import Cache
from ...core.op import Elementwise, Op
from ...core.source_location import user_line
from ...core.weak import WeakMembers
from ..agenda import Calls
from ..kinds import CallKind
from ..op_kinds import OpKind, kinds_of_weight
from .along import along_form
from .arranged import arranged_form
from .attention import attention_form
from .by_rows import RowForm, row_form
from .class_losses import class_loss_form
from .each import EachForm, each_form
from .forms import Form, Line, SizedKind, element_types, no_function
from .joins import join_form
from .norms import norm_form
from .picks import pick_form
from .products import SharedLeftForm, product_form, shared_left_form, weighted_sum_form
from .sequences import sequence_form
from .spread import broadcast_form, expand_form
from .triangles import triangle_form
from .views import pad_form, view_form
from .windows import WindowForm, window_form

_FEW_CALLS = 4  # of a kind on the average, up to which kinds without a form run call by call: plans would not pay
_FEW_KINDS, _ENOUGH_CALLS = 4, 8  # up to so many kinds of so many calls on the average are batches of their own
_MANY_CALLS = 64  # of a kind by itself, after which it is not recorded with other sizes: it has enough of its own
_MOST_LINES = 64  # that a sized kind knows

# Forms of ops that have ways of their own, the first that takes several kinds; others may run along rows.
Find = Callable[[OpKind], Form | None]
_OWN: dict[str, tuple[Find, ...]] = {
    **dict.fromkeys(("permute", "slice", "diagonal", "flip"), (view_form,)),
    "constant_pad": (pad_form,),
    "expand": (expand_form,),
    **dict.fromkeys(("tril", "triu"), (triangle_form,)),
    **dict.fromkeys(("cat", "stack"), (join_form,)),
    **dict.fromkeys(("index_get", "index_put"), (pick_form,)),
    "matmul": (weighted_sum_form, shared_left_form, product_form),
    "cross_entropy": (class_loss_form,),
    "standardize": (norm_form,),
    **dict.fromkeys(("conv", "conv_transpose", "max_pool", "avg_pool"), (window_form,)),
    "scaled_dot_product_attention": (attention_form,),
    **dict.fromkeys(("lstm_sequence", "gru_sequence", "rnn_sequence"), (sequence_form,)),
}
_ALONG: tuple[Find, ...] = (along_form, arranged_form)
_BROADCAST: tuple[Find, ...] = (broadcast_form,)
# By form and family, those of different lines. Those that may have weights are kept by what has them, and go with it.
_SIZED: Cache[Any, list[SizedKind]] = Cache("kinds of ops at any size", 1_000)
_OPS: set[type[Op]] = set()  # those that any of them is of
_TOUCHED: WeakMembers[OpKind] = WeakMembers()  # kinds that wait with a sized one, or whose rows one is of


def forget() -> None:
    """Begin anew, as if no two sizes had ever been seen: what was seen decides what is recorded together."""
    for kind in _TOUCHED:
        kind.waits_with = kind.form = None
        kind.sized.clear()
    _SIZED.clear()
    _OPS.clear()


def _own(op: type[Op]) -> tuple[Find, ...]:
    """The ways that an op has besides rows, the best first."""
    return _OWN.get(op.name, _BROADCAST if issubclass(op, Elementwise) else _ALONG)


def put_together(waiting: list[Calls]) -> list[Calls]:
    """The calls with those of one op at several sizes as one."""
    waiting = [part for calls in waiting for part in (_by_sizes(calls) if calls.kinds else (calls,))]
    by_op: dict[type[Op], list[Calls]] = {}
    sized_ops: set[type[Op]] = set()  # of which some wait together already
    for calls in waiting:
        kind: Any = calls.kind
        if type(kind) is OpKind and not kind.alone:
            by_op.setdefault(kind.op, []).append(calls)
        elif calls.kinds and isinstance(kind, SizedKind) and type(calls.kinds[0]) is OpKind:
            sized_ops.add(kind.op)
    several = [same for op, same in by_op.items() if op in sized_ops or _may_go_together(same)]
    if not several:
        return waiting
    taken: dict[int, SizedKind] = {}  # by the id of calls
    for same in several:
        for group in _groups(same):
            taken.update(_by_lines(group))
    if not taken:
        return waiting
    merged: dict[Any, list[Calls]] = {}
    for calls in waiting:  # those of one plain kind are apart where they have other weights, and stay so
        sized = taken.get(id(calls)) or (calls.kind if calls.kinds else None)
        merged.setdefault(id(calls) if sized is None else sized, []).append(calls)
    return [parts[0] if len(parts) == 1 else _merged(key, parts) for key, parts in merged.items()]


def _may_go_together(same: list[Calls]) -> bool:
    n_kinds = len(same)
    return n_kinds > 1 and not _are_enough(n_kinds, sum([len(calls.firsts) for calls in same]))


def _by_sizes(calls: Calls) -> list[Calls]:
    """Calls that were recorded together, but for those of sizes that have enough calls of their own.

    So calls of one size alone run as those of any kind; kinds belong to all lines, and another may have that size only.
    """
    sized: Any = calls.kind
    if len(sized.lines) < _MOST_LINES:  # a kind that another line has made first
        sized.lines |= {_line(calls.wheres[0]), _line(calls.wheres[-1])}
    counts = Counter(calls.kinds)
    enough = 1 if _are_enough(len(counts), len(calls.firsts)) or len(counts) == 1 else _MANY_CALLS
    if type(calls.kinds[0]) is not OpKind or counts.most_common(1)[0][1] < enough:
        return [calls]
    apart = {kind: Calls(kind) for kind, n in counts.items() if n >= enough}
    for kind in apart:  # as it is now, there is nothing to wait for
        kind.waits_with = None
    left = Calls(calls.kind)
    start = 0
    for i, kind in enumerate(calls.kinds):
        end = start + len(kind.inputs)
        part = apart.get(kind, left)
        part.refs += calls.refs[start:end]
        part.firsts.append(calls.firsts[i])
        part.samples.append(calls.samples[i])
        part.wheres.append(calls.wheres[i])
        if part is left:
            part.kinds.append(kind)
        start = end
    return [part for part in (left, *apart.values()) if part.firsts]


def _are_enough(n_kinds: int, n_calls: int) -> bool:
    """Whether calls of a few sizes, or with a few patterns of what is tracked, run faster as batches of each."""
    return n_kinds <= _FEW_KINDS and n_calls >= _ENOUGH_CALLS * n_kinds


def adopt(kind: OpKind) -> None:
    """Let calls of a new kind be recorded with those of other sizes that this line has made."""
    if kind.op not in _OPS or kind.alone:
        return
    line = _line(user_line())
    finders = (row_form, *_own(kind.op)) if issubclass(kind.op, Elementwise) else (*_own(kind.op), row_form)
    for find in (*finders, each_form):
        form = find(kind)
        if form is None or not _can_wait(kind, form):
            continue
        for sized in _known(kind, form):
            if line in sized.lines:
                _wait(kind, form, sized)
                return


def _wait(kind: OpKind, form: Form, sized: SizedKind) -> None:
    kind.form, kind.waits_with = form, sized
    _TOUCHED.add(kind)
    if isinstance(form, RowForm):
        _TOUCHED.add(form.kind)


def _can_wait(kind: OpKind, form: Form) -> bool:
    """Whether the weights of a kind are those of the family."""
    return not (isinstance(form, EachForm) and kind.captured)


def _known(kind: OpKind, form: Form) -> list[SizedKind]:
    """The sized kinds of a family so far."""
    if isinstance(form, RowForm):
        return form.kind.sized.setdefault(form.columns, [])
    key = type(form), form.family
    if kind.captured and not isinstance(form, EachForm):
        found: list[SizedKind] = kinds_of_weight(kind.captured[0]).setdefault(key, [])
        return found
    return _SIZED[key] if key in _SIZED else _SIZED.put(key, [])


# ---- which go together


Member = tuple[Calls, Form]


def _op(calls: Calls) -> OpKind:
    kind: Any = calls.kind  # those of other kinds are not looked at
    return kind


def _groups(same: list[Calls]) -> list[list[Member]]:
    """Kinds of one op that could go together, with their forms."""
    by_rows: dict[Hashable, list[Member]] = {}
    for calls in same:
        form = row_form(_op(calls))
        if form is not None:
            by_rows.setdefault(form.family, []).append((calls, form))
    by_rows = {family: group for family, group in by_rows.items() if _share_weights(group)}
    rows = [group for group in by_rows.values() if len(group) > 1 or _known(_op(group[0][0]), group[0][1])]
    # Where rows themselves are of many kinds, the op may have a way that takes all of them.
    if len(by_rows) * 2 > sum(map(len, by_rows.values())):
        rows_taken: set[int] = set()
    else:
        rows_taken = {id(calls) for group in rows for calls, _ in group}
    found: list[list[Member]] = []
    left = [calls for calls in same if id(calls) not in rows_taken]
    for find in _own(_op(same[0]).op):  # the first way of all, then the second of those that have found no others
        own: dict[Hashable, list[Member]] = {}
        for calls in left:
            form_of_op = find(_op(calls))
            if form_of_op is not None:
                own.setdefault(form_of_op.family, []).append((calls, form_of_op))
        groups = [group for group in own.values() if len(group) > 1 or _known(_op(group[0][0]), group[0][1])]
        groups = [group for group in groups if _share_weights(group)]
        taken = {id(calls) for group in groups for calls, _ in group}
        left = [calls for calls in left if id(calls) not in taken]
        found += groups
    taken = {id(calls) for group in found for calls, _ in group}
    for group in rows:
        found.append([(calls, form) for calls, form in group if id(calls) not in taken])
    taken = {id(calls) for group in found for calls, _ in group}
    others = [calls for calls in same if id(calls) not in taken]
    each: dict[Hashable, list[Member]] = {}
    for calls in others:
        if id(calls) not in taken and not calls.kind.stacks:
            form_each = each_form(_op(calls))
            each.setdefault(form_each.family, []).append((calls, form_each))
    for group in each.values():
        if sum(len(calls.firsts) for calls, _ in group) < _FEW_CALLS * len(group):
            found.append(group)
    return [group for group in found if not _are_enough(len(group), sum(len(calls.firsts) for calls, _ in group))]


def _share_weights(group: list[Member]) -> bool:
    """Whether large inputs without rows are those of several calls: else each call has its own."""
    first, form = group[0]
    n_inputs = len(first.kind.inputs)
    for j in _weights(form):
        refs = [ref for calls, _ in group for ref in calls.refs[j::n_inputs]]
        if len(refs) > 1 and len(set(refs)) * 2 > len(refs):
            return False
    return True


def _weights(form: Form) -> list[int]:
    """Inputs that calls must have in common to run as one."""
    return form.large_columns() if isinstance(form, RowForm | WindowForm | SharedLeftForm) else []


def _by_lines(group: list[Member]) -> dict[int, SizedKind]:
    """Of a family, the kinds that calls are of from now on: one for those that share a line. By the ids of calls."""
    known = _known(_op(group[0][0]), group[0][1])
    clusters: list[tuple[set[Line], list[Member]]] = []
    for member in group:
        wheres = member[0].wheres
        lines, together, apart = {_line(wheres[0]), _line(wheres[-1])}, [member], []
        for other_lines, members in clusters:
            if lines & other_lines:
                lines |= other_lines
                together = members + together
            else:
                apart.append((other_lines, members))
        clusters = [*apart, (lines, together)]
    taken: dict[int, SizedKind] = {}
    for lines, members in clusters:
        sized = next((one for one in known if one.lines & lines), None)
        if sized is None:
            if len(members) == 1:
                continue
            sized = _new_sized(*members[0])
            known.append(sized)
        if len(sized.lines) < _MOST_LINES:
            sized.lines |= lines
        for calls, form in members:
            kind: Any = calls.kind
            if kind.n_calls >= _MANY_CALLS and len(calls.firsts) >= _FEW_CALLS:
                continue
            kind.form = form
            if _can_wait(kind, form):
                _wait(kind, form, sized)
            taken[id(calls)] = sized
    return taken


def _line(where: Any) -> Line:
    return (0, 0) if where is None else (id(where[0]), where[1])


def _new_sized(calls: Calls, form: Form) -> SizedKind:
    """The kind of all calls with forms of this family."""
    one: Any = calls.kind
    inputs, results = (form.kind.inputs, form.kind.results) if isinstance(form, RowForm) else element_types(one)
    captured = () if isinstance(form, EachForm) else one.captured
    alone = isinstance(form, EachForm)
    kind = SizedKind(one.name, no_function, inputs, results, one.tracked, captured, alone=alone, cell=False)
    kind.op, kind.form, kind.family, kind.lines, kind.takes_rows = one.op, type(form), form.family, set(), False
    kind.weights = _weights(form)
    _OPS.add(one.op)
    return kind


def _merged(kind: CallKind, parts: Iterable[Calls]) -> Calls:
    """Calls of several kinds, some of them sized already, as calls of one."""
    made = Calls(kind)
    of_each: list[Any] = []
    for calls in parts:
        kinds = calls.kinds or [calls.kind] * len(calls.firsts)
        start = 0
        for first, sample, where, own in zip(calls.firsts, calls.samples, calls.wheres, kinds, strict=True):
            end = start + len(own.inputs)
            of_each.append((first, calls.refs[start:end], sample, where, own))
            start = end
    of_each.sort(key=lambda call: call[0])  # as they were recorded
    for first, refs, sample, where, own in of_each:
        made.firsts.append(first)
        made.refs += refs
        made.samples.append(sample)
        made.wheres.append(where)
        made.kinds.append(own)
    return made
