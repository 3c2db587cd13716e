"""Python's own branches and loops in programs: found from source, right at every size, refused with the line."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ExportError
from extempo.func.tree import leaves

r = ex.randn


def branch(x):
    if x.sum() > 0:
        y = x * 2
        z = 1
    else:
        y = x - 1
        z = 1
    return y + z


def elif_chain(x):
    total = x.sum()
    if total > 5:
        scale = 1.0
    elif total > 0:
        scale = 2.0
    else:
        scale = total
    return x * scale


def early_return(x):
    if x.sum() > 10:
        return x * 2
    x = x + 1
    if x.mean() < 0:
        return x.abs()
    return x.exp()


def over_rows(x):
    h = ex.zeros(2)
    for row in x:
        h = ex.tanh(h + row)
    return h


def enumerated(x):
    out = ex.zeros(x.shape[0], 3)
    for i, row in enumerate(x):
        out[i] = row.sum() * i
    return out


def zipped(x):
    total = 0.0
    for a, b in zip(x, x * 2, strict=True):
        total += (a * b).sum()
    return total


def counting(x):
    n = 0
    while x.abs().sum() < 100 and n < 20:
        x = x * 2 + 1
        n += 1
    return x, n


def jumps(x):
    total = ex.zeros(())
    for i in range(len(x)):
        if x[i].sum() > 3:
            break
        if x[i].sum() < 0:
            continue
        total = total + x[i].sum()
    return total


def return_in_loop(x):
    for row in x:
        if row.sum() > 3:
            return row * 2
    return x.sum(0)


def nested_loops(x):
    best = ex.zeros(())
    for row in x:
        for value in row:
            if value > best:
                best = value
    return best


def helper(v):
    return v * 3 if v.sum() > 0 and not v.max() > 5 else -v


def through_helper(x):
    return ex.stack([helper(row) for row in x])


def numbers(x):
    k = int(x.sum())
    if 0 < k < 9 or x.max().item() > 8:
        return x * k
    return x / 2


def decode(x):
    token = ex.zeros((), dtype=ex.int64)
    out = ex.zeros(6, dtype=ex.int64)
    i = 0
    while i < 6 and token != 3:
        token = (x @ ex.ones(2)).argmax() + i
        out[i] = token
        i += 1
    return out, i


FUNCTIONS = [
    branch, elif_chain, early_return, over_rows, enumerated, zipped, counting, jumps, return_in_loop, nested_loops,
    through_helper, numbers, decode, lambda x: x if x.sum() > 0 else -x,
]  # fmt: skip


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_programs_take_the_way_that_python_takes(fn):
    program = ex.program(fn, r(3, 2), dynamic={"x": {0: "n"}})
    for n in (1, 2, 5, 9):
        for scale in (0.1, 1.0, 4.0, -1.0, -4.0):
            x = (r(n, 2) + 0.5) * scale
            for ours, theirs in zip(leaves(program(x)), leaves(fn(x)), strict=True):
                assert ex.allclose(ex.as_tensor(ours), ex.as_tensor(theirs), atol=1e-5)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 5)
        self.out = nn.Linear(5, 2)

    def start(self, x):
        return ex.zeros(x.shape[0], 5)

    def forward(self, x):
        h = self.start(x)
        outs = []
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            outs.append(self.out(h))
        return ex.stack(outs, 1), h


class Inside(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.Sequential(Recurrent())

    def forward(self, x):
        y, h = self.parts(x)
        return y.mean(1) if h.sum() > 0 else y.sum(1)


@pytest.mark.parametrize("model", [Recurrent(), Inside()], ids=["model", "inside another"])
def test_a_module_with_a_loop_over_time_runs_at_every_length(model):
    model.eval()
    program = ex.program(model, r(3, 6, 4), dynamic={"x": {0: "batch", 1: "time"}})
    assert not any("forward" in vars(m) for m in model.modules())
    for batch, time in [(1, 1), (2, 9), (4, 3)]:
        x = r(batch, time, 4)
        for ours, theirs in zip(leaves(program(x)), leaves(model(x)), strict=True):
            assert ex.allclose(ours, theirs, atol=1e-5)


def test_loops_over_known_lengths_are_unrolled_and_may_keep_anything():
    def fn(x):
        parts = []
        for i, name in enumerate(["a", "b"]):
            if name == "b" or i == 0:
                parts.append((name, x * i))
        return dict(parts)

    program = ex.program(fn, r(3), dynamic={"x": {0: "n"}})
    assert list(program(ex.ones(2))) == ["a", "b"]


def text(x):
    y = ""
    if x.sum() > 0:
        y = "a"
    return x if y == "a" else -x


def sometimes_appended(x):
    found = []
    for row in x:
        if row.sum() > 0:
            found.append(row)
    return ex.stack(found)


def growing(x):
    while x.sum() < 100:
        x = ex.cat([x, x])
    return x


def nothing_to_start_from(x):
    h = None
    while x.sum() < 100:
        x = x * 2 + 1
        h = x if h is None else h + x
    return h


def set_in_one_branch(x):
    if x.sum() > 0:
        y = x * 2
    return x + y


def set_in_the_loop(x):
    for row in x:
        last = row
    return last * 2


class Sets(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            self.last = 1
        return x


class Counts(nn.Module):
    calls = 0

    def forward(self, x):
        if x.sum() > 0:
            self.calls += 1
        return x


def list_in_while(x):
    found = []
    while x.sum() < 9:
        x = x + 1
        found.append(x)
    return ex.stack(found)


@pytest.mark.parametrize(
    ("model", "offset", "message"),
    [
        (text, 2, "`if` on a value was decided by the example: `y` is 'a' in one branch and '' in the other"),
        (sometimes_appended, 3, "`found` has another structure in one branch"),
        (growing, 1, "`x` is .* before this loop and .* after a step"),
        (nothing_to_start_from, 2, "`h` is None before this `while` loop and .* after a step"),
        (set_in_one_branch, 1, "`y` is set in one branch of this `if` only"),
        (set_in_the_loop, 1, "`last` is set inside this loop, which may take no step"),
        (Sets().eval(), 1, "self.last is set inside an `if` on a value"),
        (Counts().eval(), 2, "calls is set inside a branch or loop"),
        (list_in_while, 2, "the list `found` grows in this `while` loop"),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_what_cannot_be_kept_is_an_error_with_its_line(model, offset, message):
    function = type(model).forward if isinstance(model, nn.Module) else model
    line = function.__code__.co_firstlineno + offset
    with pytest.raises(ExportError, match=rf"test_source_control.py:{line}: {message}"):
        ex.program(model, ex.ones(3, 2), dynamic={"x": {0: "n"}})
