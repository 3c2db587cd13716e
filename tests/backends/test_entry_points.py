"""Programs give the same bits whether native calls or their Python defaults stand at the entry points."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import extempo as ex
import extempo.nn.functional as F
from extempo import nn
from extempo.backends import entry_points, selection
from extempo.backends.entry_points import TABLE, Binding, EntryPoint, python_defaults
from extempo.core.graph import describe_where
from extempo.core.op import REGISTRY, Refuse
from extempo.core.storage import Storage
from extempo.dispatch.dispatcher import apply
from extempo.scheduling.layout import view_layout

natively = pytest.mark.skipif(selection.native() is None, reason="the native backend does not run here")
ROWS = pytest.mark.parametrize("row", TABLE, ids=lambda row: row.replaced)


def found(path: str):
    """What stands at a dotted path inside extempo: the longest part of it that is a module, then attributes."""
    parts = path.split(".")
    for n in range(len(parts), 0, -1):
        try:
            owner = importlib.import_module(".".join(["extempo", *parts[:n]]))
        except ModuleNotFoundError:
            continue
        return functools.reduce(getattr, parts[n:], owner)
    raise AttributeError(path)


def bits(x):
    """Tensors as their bytes, in any nesting."""
    if isinstance(x, ex.Tensor):
        array = x.numpy(force=True)
        return str(array.dtype), array.shape, array.strides, array.tobytes(), x.requires_grad, x._type
    if isinstance(x, np.ndarray):
        return str(x.dtype), x.shape, x.tobytes()
    if isinstance(x, Storage):
        return x.version, x.written_at
    if isinstance(x, list | tuple):
        return [bits(part) for part in x]
    return x


# ---- the table


def test_a_module_function_is_exchanged_by_its_first_call():
    row = EntryPoint("here", "here")
    TABLE.remove(row)
    made = []

    class Owner:
        @staticmethod
        def double(x):
            return 2 * x

    def native():
        made.append(lambda x: x + x)
        return made[-1]

    binding = Binding(Owner, "double", Owner.double, native, on_call=True)
    binding.install()
    assert not made
    assert Owner.double(3) == 6
    assert Owner.double is made[0]
    binding.restore()
    assert Owner.double is binding.default
    binding.install()
    assert Owner.double is made[0]


def test_what_is_put_around_a_function_stays_when_its_native_call_is_made():
    class Owner:
        @staticmethod
        def one():
            return 1

    binding = Binding(Owner, "one", Owner.one, lambda: lambda: 2, on_call=True)
    binding.install()
    inner = Owner.one
    Owner.one = staticmethod(lambda: inner() + 10)
    assert Owner.one() == 12
    assert Owner.one() == 12


def test_a_partial_is_exchanged_under_those_who_imported_it():
    row = EntryPoint("here", "here")
    TABLE.remove(row)
    fn = functools.partial(len)
    binding = row.bind(fn, "func", lambda: sum)
    binding.restore()
    assert fn([5, 6]) == 2
    binding.install()
    assert fn([5, 6]) == 11


def test_the_default_stays_where_there_is_no_native_call():
    class Owner:
        fn = staticmethod(abs)

    binding = Binding(Owner, "fn", abs, lambda: None, on_call=False)
    binding.install()
    assert Owner.fn is abs


@natively
def test_defaults_stand_within_the_block_only_also_for_what_is_bound_inside():
    ex.ones(1) + 1
    row = EntryPoint("here", "here")
    try:
        outside = apply.func
        with python_defaults():
            assert apply.func is entry_points.APPLY.bindings[0].default
            bound = row.bind(functools.partial(len), "func", lambda: sum)
            with python_defaults():
                assert bound.owner.func is len
            assert bound.owner.func is len
        assert apply.func is outside
        assert bound.owner.func is sum
    finally:
        TABLE.remove(row)


def test_the_numpy_backend_runs_on_the_defaults():
    code = (
        "import extempo as ex; from extempo.backends.entry_points import TABLE; (ex.ones(2) + 1).sum();"
        "ex.batch(lambda x: x * 2)([ex.ones(1)]);"
        "assert all(b.standing is b.default for row in TABLE for b in row.bindings); print(len(TABLE))"
    )
    env = os.environ | {"EXTEMPO_BACKEND": "numpy"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(len(TABLE)), done.stderr


@natively
@ROWS
def test_every_path_of_the_table_exists(row):
    owner, _, name = row.replaced.rpartition(".")
    assert hasattr(found(owner), name) or row.bindings, row.replaced
    assert callable(found(row.mirrors))
    assert callable(found(f"backends.llvm.{row.native}"))


@natively
@ROWS
def test_native_code_names_the_python_that_it_mirrors(row):
    assert f"`{row.mirrors}`" in inspect.getdoc(found(f"backends.llvm.{row.native}"))


# ---- one op: every sample of every op, and every operator


OPS = [op for op in REGISTRY.values() if not isinstance(op.samples, Refuse)]


def tensors_of(sample, d, tracked):
    made = []
    for x in sample.inputs:
        if isinstance(x, np.ndarray):
            is_floating = x.dtype.kind == "f"
            x = ex.tensor(x.astype(d) if is_floating else x, requires_grad=is_floating and tracked)
        made.append(x)
    return made


def outcome(run, inputs):
    """What `run(*inputs)` gives, with its gradients; three times, since native code prepares itself in the first."""
    said = []
    for _ in range(3):
        ex.manual_seed(1)
        results = run(*inputs)
        results = results if isinstance(results, tuple) else (results,)
        said.append(bits(results))
        said.append([describe_where(r._history.where) for r in results if r._history is not None])
        tracked = [r for r in results if r.requires_grad]
        if tracked:
            leaves = [x for x in inputs if isinstance(x, ex.Tensor) and x.requires_grad]
            ex.autograd.backward(tracked, [ex.ones_like(r) for r in tracked])
            said.append([None if x.grad is None else bits(x.grad) for x in leaves])
            for x in leaves:
                x.grad = None
    return said


def same_by_default(run, inputs):
    native = outcome(run, inputs)
    with python_defaults():
        assert outcome(run, inputs) == native


@natively
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_an_op_gives_the_same_bits_by_its_python_default(op):
    tracked = not isinstance(op.vjp, Refuse)
    for sample in list(op.samples(np.random.default_rng(1)))[:2]:
        for d in (np.float64,) if op.only_wide else (np.float32, np.float64):
            inputs = tensors_of(sample, d, tracked)
            same_by_default(lambda *inputs, attrs=sample.attrs: apply(op, inputs, attrs), inputs)


FAST_OPS = {(b.owner.op.name, b.owner.arity): b for b in entry_points.FAST_OP.bindings}


@natively
@pytest.mark.parametrize(("name", "arity"), FAST_OPS)
def test_a_fast_op_gives_the_same_bits_by_its_python_default(name, arity):
    fast_op = FAST_OPS[name, arity].owner
    tracked = not isinstance(fast_op.op.vjp, Refuse)
    for sample in fast_op.op.samples(np.random.default_rng(2)):
        if len(sample.inputs) == arity and not sample.attrs:
            same_by_default(lambda *inputs: fast_op.run(*inputs), tensors_of(sample, np.float32, tracked))


WHOLE = ("__and__", "__or__", "__xor__", "__lshift__", "__rshift__")


@natively
@pytest.mark.parametrize("binding", entry_points.OPERATOR.bindings, ids=lambda b: b.name)
def test_an_operator_gives_the_same_bits_by_its_python_default(binding):
    def operator(*operands):
        return getattr(ex.Tensor, binding.name)(*operands)

    d = ex.int64 if binding.name in WHOLE else ex.float32
    x = ex.tensor([[3, 1], [2, 5]], dtype=d, requires_grad=d is ex.float32)
    same_by_default(operator, [x, ex.tensor([[1, 4], [2, 3]], dtype=d, requires_grad=d is ex.float32)])
    if binding.name != "__matmul__":
        same_by_default(operator, [x, 2])
        if binding.name not in WHOLE:
            same_by_default(operator, [x, 2.5])


@natively
@pytest.mark.parametrize("wrong", ["text", None, [1.0], object()])
def test_an_operator_leaves_what_is_no_operand_to_the_other_side(wrong):
    x = ex.ones(2)
    native = x.__add__(wrong)
    with python_defaults():
        assert native is x.__add__(wrong) is NotImplemented


# ---- programs


def mlp():
    ex.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 4))
    data, labels = ex.randn(5, 6), ex.tensor([0, 1, 2, 3, 0])
    return model, lambda: F.cross_entropy(model(data), labels)


def eager_steps():
    """Adam on a small network, with gradients that add up over two steps."""
    model, loss_of = mlp()
    optimizer = ex.optim.Adam(model.parameters(), lr=0.1)
    losses = []
    for k in range(6):
        if k % 2 == 0:
            optimizer.zero_grad()
        losses.append(loss_of())
        losses[-1].backward()
        optimizer.step()
    return [losses, list(model.parameters()), [p._storage.version for p in model.parameters()]]


def compiled_steps():
    """The same with momentum as one compiled function: first traced, then planned."""
    model, loss_of = mlp()
    optimizer = ex.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @ex.compile
    def step():
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss

    return [[step() for _ in range(6)], list(model.parameters())]


def escaped_traces():
    """A compiled model, whose trace goes on with a loss outside of it; values are read in between."""
    model, _ = mlp()
    compiled = ex.compile(model)
    said = []
    for k in range(6):
        out = compiled(ex.ones(2, 6) * k)
        said.append(out.tanh().sum().item())
        loss = (out * out).mean()
        loss.backward()
        said += [loss, *[p.grad.clone() for p in model.parameters()]]
    return said


def batched_sequences():
    """Samples of different lengths: a circle of one kind, and values that samples look at."""
    ex.manual_seed(0)
    cell, head = nn.GRUCell(3, 4), nn.Linear(4, 2)

    def body(rows):
        h = ex.zeros(4)
        for row in rows:
            h = cell(row, h)
        while h.sum().item() < 0.0 or h.max() > 0.9:
            h = h * 0.5 + 0.25
        return head(h).sum() + h.max()

    samples = [ex.randn(n, 3) for n in (1, 4, 2, 3)]
    said = []
    for _ in range(3):
        losses = ex.batch(body)(samples)
        total = ex.stack(list(losses)).sum()
        total.backward()
        said += [total, *[p.grad.clone() for p in cell.parameters()]]
    return said


def batched_trees():
    """Two kinds of cells that read each other's results in a circle."""
    ex.manual_seed(0)
    left, right = nn.Linear(4, 4), nn.Linear(4, 4)

    def value_of(tree):
        if not isinstance(tree, tuple):
            return ex.full((4,), float(tree))
        a, b = map(value_of, tree)
        return right(left(a).tanh() * b) if value_of.turn(tree) else left(right(b).tanh() + a)

    value_of.turn = lambda tree: len(str(tree)) % 3
    trees = [((1, 2), (3, (4, 5))), (1, (2, (3, 4))), 7, (((1, 2), 3), 4)]
    said = []
    for _ in range(3):
        results = ex.batch(value_of)(trees)
        ex.stack(list(results)).sum().backward()
        said += [list(results), left.weight.grad.clone(), right.weight.grad.clone()]
    return said


def inline_caches():
    """Functions that check their arguments and run one op."""
    x = ex.arange(12.0).reshape(3, 4).requires_grad_()
    said = []
    for _ in range(4):
        y = F.softmax(x, dim=-1).sum(dim=0, keepdim=True) + F.log_softmax(x, dim=0).mean()
        y.sum().backward()
        said += [y, x.grad.clone()]
    return said


def guarded_steps():
    """Every gradient and weight is looked at before anything is freed."""
    with warnings.catch_warnings(), ex.inspect.guard():
        warnings.simplefilter("ignore")  # gradients are summed up over steps on purpose
        return [eager_steps(), compiled_steps()]


PROGRAMS = [
    *(eager_steps, compiled_steps, escaped_traces, batched_sequences, batched_trees, inline_caches),
    guarded_steps,
]


@natively
@pytest.mark.usefixtures("always_planned")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_gives_the_same_bits_by_the_python_defaults(program):
    native = bits(program())
    with python_defaults():
        assert bits(program()) == native


@contextlib.contextmanager
def counted_defaults():
    """The Python defaults, and how often each row's are called."""
    calls = dict.fromkeys((row.replaced for row in TABLE), 0)

    def counted(default, replaced):
        @functools.wraps(default)
        def count(*args, **kwargs):
            calls[replaced] += 1
            return default(*args, **kwargs)

        return count

    with python_defaults():
        for row in TABLE:
            for binding in row.bindings:
                binding._put(counted(binding.default, row.replaced))
        yield calls


@natively
@pytest.mark.usefixtures("always_planned")
def test_every_default_is_called_by_one_of_the_programs():
    batched_sequences()  # what is bound by the first batch is there
    with counted_defaults() as calls:
        for program in PROGRAMS:
            program()
    del calls[entry_points.RECORD_OP.replaced]  # called by native code alone: see below
    assert not [replaced for replaced, n in calls.items() if not n]


@natively
@pytest.mark.usefixtures("always_planned")
def test_native_calls_record_ops_of_samples_by_python_too():
    native = bits(batched_sequences())
    (binding,) = entry_points.RECORD_OP.bindings
    calls = []
    try:
        binding._put(lambda *args: calls.append(args[1].name) or binding.default(*args))
        assert bits(batched_sequences()) == native
    finally:
        binding.install()
    assert calls


# ---- twins: the native function and the Python that it mirrors on the same calls

PURE = [
    entry_points.REACH,
    entry_points.SAME,
    entry_points.GRADIENTS,
    entry_points.AS_ARRAY,
    entry_points.SOURCES,
    entry_points.NOTE_MAKERS,
    entry_points.DEPTHS,
    entry_points.AGENDA,
]


@natively
@pytest.mark.usefixtures("always_planned")
@pytest.mark.parametrize("row", PURE, ids=lambda row: row.replaced)
def test_a_native_function_answers_every_call_as_its_python_default_does(row):
    """`apply` and others that record what they do are compared op by op and program by program above."""
    (binding,) = row.bindings
    answers = []

    def both(*args):
        copies = [x.copy() if isinstance(x, np.ndarray) else x for x in args]
        made, expected = binding.native()(*args), binding.default(*copies)
        if inspect.isgenerator(made):
            made, expected = list(made), list(expected)
        if row is entry_points.REACH:
            made, expected = sorted(made, key=id), sorted(expected, key=id)
        if row not in (entry_points.NOTE_MAKERS, entry_points.DEPTHS):  # what they write is what they answer
            assert bits(made) == bits(expected)
        assert bits(list(args)) == bits(copies)
        answers.append(made)
        return iter(made) if row is entry_points.AGENDA else made

    try:
        binding._put(both)
        for program in PROGRAMS:
            program()
    finally:
        binding.install()
    assert answers


@natively
@pytest.mark.parametrize(
    ("name", "numbers", "attrs"),
    [
        ("permute", (), {"dims": (2, 0, 1)}),
        ("expand", (), {"shape": (5, 2, 3, 4)}),
        ("reshape", (), {"shape": (3, 2, 4)}),
        ("reshape", (), {"shape": (2, 3, 2, 2)}),
        ("slice", (1, 0), {"spec": ("i", (2, 1))}),
    ],
)
def test_native_views_lie_where_the_layout_of_plans_says(name, numbers, attrs):
    base = ex.arange(24.0).reshape(2, 3, 4)
    for x in (base, base.transpose(0, 2).contiguous().transpose(0, 2), base[:, :, ::2].expand(2, 3, 2)):
        if name == "reshape" and x.numel() != 24:
            continue
        for _ in range(2):  # the second call is native
            out = apply(REGISTRY[name], (x, *numbers), attrs)
        expected = view_layout(name, x._type, x._data.strides, attrs, out._type, numbers)
        shares = np.shares_memory(out._data, x._data)
        assert shares == (expected is not None)
        if expected is not None:
            offset = out._data.__array_interface__["data"][0] - x._data.__array_interface__["data"][0]
            assert (out._data.strides, offset) == expected


# Every Python function that native code says it mirrors, and the test that compares both on the same calls.
ONE_OP = "test_an_op_gives_the_same_bits_by_its_python_default"
A_PROGRAM = "test_a_program_gives_the_same_bits_by_the_python_defaults"
PURE_CALL = "test_a_native_function_answers_every_call_as_its_python_default_does"
A_SEGMENT = "test_tensors_and_tape_are_those_that_python_makes"
A_BATCH = "test_native_code_records_what_python_records"
COMPARED = {
    "autograd.accumulating._add_in_place": A_PROGRAM,
    "autograd.accumulating.accumulate": A_PROGRAM,
    "autograd.engine.BackwardEngine._add": A_PROGRAM,
    "autograd.engine.BackwardEngine._add_into_part": ONE_OP,
    "autograd.engine.BackwardEngine._by_kernel": ONE_OP,
    "autograd.engine.BackwardEngine._visit": ONE_OP,
    "autograd.native_engine.all_finite": "test_native_code_finds_what_is_not_finite_wherever_it_stands",
    "autograd.native_engine.reach": PURE_CALL,
    "autograd.native_engine.settle": "test_nodes_are_freed_if_all_gradients_are_finite",
    "backends.llvm.routines.routine.is_spread": "test_the_bits_are_those_of_a_copy",
    "batching.agenda._array_of_ints": PURE_CALL,
    "batching.agenda._depths": PURE_CALL,
    "batching.agenda._note_makers": PURE_CALL,
    "batching.agenda._sources_of": PURE_CALL,
    "batching.agenda.agenda": PURE_CALL,
    "batching.purity_guards.PurityGuards.same": "test_what_a_cell_reads_may_change_between_calls",
    "batching.rows.RowTable.add": "test_a_gather_gives_the_rows_of_the_numbers",
    "batching.rows.RowTable.add_at": "test_a_gather_gives_the_rows_of_the_numbers",
    "batching.rows.RowTable.add_parts": "test_parts_of_rows_are_gathered_and_added_to",
    "batching.rows.RowTable.add_pieces": "test_pieces_of_different_length_are_gathered_and_added_to",
    "batching.rows.RowTable.gather_pieces": "test_pieces_of_different_length_are_gathered_and_added_to",
    "batching.rows.RowTable.scatter_add_pieces": "test_pieces_of_different_length_are_gathered_and_added_to",
    "batching.run.BatchExecutor.part_of": A_BATCH,
    "batching.sizes.views.copy_views": "test_views_are_copied_and_put_back",
    "batching.rows.RowTable.add_each": "test_whole_arrays_are_rows_of_their_numbers",
    "batching.rows.RowTable.fill": "test_some_of_the_numbers_fill_rows_and_are_added_to",
    "batching.rows.RowTable.gather": "test_a_gather_gives_the_rows_of_the_numbers",
    "batching.rows.RowTable.has": "test_a_gather_gives_the_rows_of_the_numbers",
    "batching.rows.RowTable.scatter_add": "test_a_scatter_adds_in_the_order_of_the_numbers_and_nowhere_else",
    "batching.run.BatchExecutor._from_outside": A_BATCH,
    "batching.run.BatchExecutor.call": A_BATCH,
    "batching.run._line_of_read": A_BATCH,
    "batching.sample_tracer.SampleTracer.apply": A_BATCH,
    "batching.sample_tracer.call_cell": A_BATCH,
    "core.source_location.user_line": ONE_OP,
    "core.strides.kept_order": "test_what_runs_ops_follows_the_rule",
    "core.tensor.wrap": A_SEGMENT,
    "dispatch.dispatcher.alias_of": A_SEGMENT,
    "dispatch.dispatcher.dispatch": ONE_OP,
    "dispatch.dispatcher.entry": ONE_OP,
    "dispatch.dispatcher.link": ONE_OP,
    "dispatch.dispatcher.run_eager": "test_a_fast_op_gives_the_same_bits_by_its_python_default",
    "dispatch.fast_path.runner2": "test_an_operator_gives_the_same_bits_by_its_python_default",
    "dispatch.inline_cache.InlineCache._slow": A_PROGRAM,
    "dispatch.inline_cache._key": A_PROGRAM,
    "optim.change_detection.same": PURE_CALL,
    "optim.flat_buffers.count_writes": A_PROGRAM,
    "optim.flat_buffers.gradients_in_place": PURE_CALL,
    "scheduling.layout.reshaped_strides": "test_native_views_lie_where_the_layout_of_plans_says",
    "scheduling.layout.view_layout": "test_native_views_lie_where_the_layout_of_plans_says",
    "tracing.backward.backward_by_plan": "test_gradients_are_those_of_the_engine",
    "tracing.executor.TraceExecutor._flush": A_SEGMENT,
    "tracing.materialize.materialize_freed_nodes": "test_views_and_several_results_that_are_held_over_a_backward",
    "tracing.trace.Trace.live_from": A_SEGMENT,
    "tracing.trace.Trace.new_result": "test_the_tape_holds_what_python_puts_there",
    "tracing.tracer.Tracer.append": "test_the_tape_holds_what_python_puts_there",
}


def mirrored():
    """The paths that docstrings of native code name, in order."""
    sources = (Path(ex.__file__).parent / "backends").rglob("*.py")
    return sorted({path for source in sources for path in re.findall(r"Mirrors `([\w.]+)`", source.read_text())})


@natively
@pytest.mark.parametrize("path", mirrored())
def test_what_native_code_mirrors_exists_and_is_compared_with_it(path):
    assert callable(found(path))
    assert path in COMPARED, f"no test is known to compare {path} with its native twin: add it to COMPARED"


def test_every_comparison_is_of_something_that_native_code_mirrors_and_is_a_test():
    assert set(COMPARED) == set(mirrored())
    tests = "".join(path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))
    assert not [name for name in set(COMPARED.values()) if f"def {name}(" not in tests]
