"""apply() in native code: look the signature up, run its kernel (or make the view), make the tensor and its node.

What `dispatcher.run_eager` does, for inputs that are tensors with values, numbers and None, once the slow way has
filled the signature. In a recording the op is put on the trace instead (`tracing`), unless it is one of those that run
at once. Whatever is out of the ordinary goes the slow way, with the same arguments.
"""

from __future__ import annotations

from ..ir.builder import IRFunction, IRModule, Pointer, Value, i1, i32, i64, ptr
from .cpython import NOT_COMPARABLE, TUPLE_ITEMS, WRITEABLE
from .nan_checks import checked
from .objects import Objects
from .tracing import NOT_NOW, NOW_IF_VIEW, Modes, put_on_tape
from .views import make_view

MAX_INPUTS = 1024
MAX_NEEDING = 48  # the first that may need a gradient: needs are bits of one number


class _Apply:
    """Writes the function: fields shared by its steps."""

    def __init__(self, b: IRFunction, offsets: dict[str, int]) -> None:
        self.b = b
        self.o = Objects(b, offsets)
        self.python = self.o.python
        self.signatures = self.python.item(b.arg("self"), 0)
        self.slow_way = self.python.item(b.arg("self"), 1)
        self.new_signature = self.python.item(b.arg("self"), 2)
        args = Pointer(b.arg("args"), ptr)
        # References of ours, null as long as there is none: a kernel may let other threads run, and these may empty the
        # cache of signatures or replace a plan.
        self.types, self.signature, self.plan = b.var(ptr, 0), b.var(ptr, 0), b.var(ptr, 0)
        self.slow = b.way_out(self._slow)
        self.slow.take_if((b.arg("nargs") != 2) & (b.arg("nargs") != 3))
        attrs = b.var(ptr, self.o.known("no_attributes"))
        with b.if_(b.arg("nargs") == 3):
            attrs.set(args[2])
        self.slow.take_if(self.python.type_of(attrs.value) != self.python.type_of(self.o.known("no_attributes")))
        self.op, self.inputs, self.attrs = args[0], args[1], attrs.value
        self.n_inputs = self._size(self.inputs)
        self.arrays = b.array(ptr, MAX_INPUTS)
        self.needs = b.var(i64, 0)
        self.only_view = b.var(i1, 0)
        self.cut = b.var(ptr, self.o.known("none"))

    def _size(self, made: Value) -> Value:
        return self.b.call(self.b.module.declare("PyTuple_Size", i64, [ptr]), made)

    def release(self) -> None:
        for held in (self.types, self.signature, self.plan):
            self.python.decref(held.value)

    def _slow(self) -> None:
        b = self.b
        self.release()
        b.ret(self.python.vectorcall(self.slow_way, b.arg("args"), b.arg("nargs"), b.const(ptr, 0)))

    def record_it(self, recording: Value, mode: Modes) -> None:
        """In a recording: return what is on the trace now, or go on with an op that runs at once."""
        b, o = self.b, self.o
        with b.if_(recording != o.known("none")):
            inputs = b.byte_offset(self.inputs, TUPLE_ITEMS)
            made = put_on_tape(o, recording, (self.op, inputs, self.n_inputs, self.attrs), mode)
            with b.if_(made != o.known("none")):
                b.ret(made)
            runs = b.call(b.module.defined["extempo_at_once"], inputs, self.n_inputs, mode[0])
            self.slow.take_if(runs == NOT_NOW)
            self.only_view.set(runs == NOW_IF_VIEW)

    def record_for(self, sample: Value) -> None:
        """In a sample of a batch: return what it makes of the op, or go on with what may be a view of what is there."""
        self.o.record_op(sample, self.op, self.python.incref(self.inputs), self.attrs)
        self.only_view.set(1)

    def look_at_inputs(self) -> None:
        b, o = self.b, self.o
        self.slow.take_if(self.n_inputs > MAX_INPUTS)
        self.types.set(o.check(self.python.new_tuple(self.n_inputs)))
        with b.loop(0, self.n_inputs) as i:
            x = self.python.item(self.inputs, i)
            type_ = self.python.type_of(x)
            kind = b.var(ptr, type_)
            tensor, other = b.if_else(o.is_tensor(type_))
            with tensor:
                self.arrays[i] = o.values_of(x, self.slow)
                kind.set(o.get(x, "tensor._type"))
                tracked, free = b.if_else(o.is_tracked(x))
                with tracked:
                    self.slow.take_if(i >= MAX_NEEDING)
                    self.needs.set(self.needs.value | (b.const(i64, 1) << i))
                with free:
                    own = o.get(x, "tensor._grad_barrier")
                    with b.if_(own != o.known("none")):
                        self.cut.set(own)
            with other:
                number = b.var(i1, 0)
                for name in ("float", "int", "bool", "none_type"):
                    number.set(number.value | (type_ == o.known(name)))
                self.slow.take_if(~number.value)
                self.arrays[i] = x
            self.python.set_item(self.types.value, i, self.python.incref(kind.value))

    def find_signature(self) -> Value:
        """From the dict of signatures, by (op, types, name, value, name, value, ...); a new one where there is none."""
        b, python, declare = self.b, self.python, self.b.module.declare
        n_attrs = b.call(declare("PyDict_Size", i64, [ptr]), self.attrs)
        key = self.o.check(python.new_tuple(n_attrs * 2 + 2))
        python.set_item(key, 0, python.incref(self.op))
        python.set_item(key, 1, python.incref(self.types.value))
        position, name, value = b.array(i64, 1), b.array(ptr, 1), b.array(ptr, 1)
        position[0] = b.const(i64, 0)
        following = declare("PyDict_Next", i32, [ptr, ptr, ptr, ptr])
        with b.loop(0, n_attrs) as i:
            b.call(following, self.attrs, position.address, name.address, value.address)
            python.set_item(key, i * 2 + 2, python.incref(name[0]))
            python.set_item(key, i * 2 + 3, python.incref(value[0]))
        found = b.call(declare("PyDict_GetItemWithError", ptr, [ptr, ptr]), self.signatures, key)
        python.decref(key)
        with b.if_(found == 0):
            with b.if_(python.is_raised()):  # an attribute that cannot be hashed, or an interrupt while it was
                python.forget(*NOT_COMPARABLE)
                self.slow.take_unless(python.is_raised())
                self.release()
                b.ret(b.const(ptr, 0))
            given = b.array(ptr, 3)
            for k, x in enumerate((self.op, self.types.value, self.attrs)):
                given[k] = x
            made = python.vectorcall(self.new_signature, given.address, b.const(i64, 3), b.const(ptr, 0))
            self.release()
            with b.if_(made == 0):
                b.ret(made)
            python.decref(made)
            # From the start: Python has run, so another thread may have given inputs other memory.
            again = b.module.defined["extempo_apply"]
            b.ret(b.call(again, b.arg("self"), b.arg("args"), b.arg("nargs")))
        self.signature.set(python.incref(found))
        return found

    def find_plan(self, signature: Value, tracked: Value) -> Value:
        """What the signature says of these inputs that need a gradient; null where nothing is tracked."""
        b, python, declare = self.b, self.python, self.b.module.declare
        with b.if_(tracked):
            number = b.call(declare("PyLong_FromLongLong", ptr, [i64]), self.needs.value)
            with b.if_(number == 0):
                self.release()
                b.ret(number)
            plans = self.o.get(signature, "signature.plans")
            found = b.call(declare("PyDict_GetItem", ptr, [ptr, ptr]), plans, number)
            python.decref(number)
            self.slow.take_if(found == 0)
            self.plan.set(python.incref(found))
        return self.plan.value

    def run(self, signature: Value) -> tuple[Value, Value]:
        """The result's array (a new reference), and whether it is a view: a reshape may need a copy."""
        b, o, python = self.b, self.o, self.python
        array = b.var(ptr, 0)
        is_view = b.var(i1, 0)
        view = o.get(signature, "signature.view")
        with b.if_(view != o.known("none")):
            source = self.arrays[0]
            self.slow.take_if(python.type_of(source) != o.known("array"))
            self.slow.take_if((python.flags(source) & WRITEABLE) == 0)  # NumPy decides whether that is a view
            inputs = b.byte_offset(self.inputs, TUPLE_ITEMS)
            array.set(make_view(b, python.bytes_of(view), source, inputs))
            is_view.set(array.value != 0)
        with b.if_(~is_view.value):
            kernel = o.get(signature, "signature.kernel")
            self.slow.take_if(kernel == o.known("none"))
            made = python.vectorcall(kernel, self.arrays.address, self.n_inputs, b.const(ptr, 0))
            with b.if_(made == 0):
                self.release()
                b.ret(made)
            array.set(made)
        return array.value, is_view.value

    def alias(self) -> Value:
        """How a view is seen from its base: the source's own way, and this step. A new reference."""
        b, o, python, declare = self.b, self.o, self.python, self.b.module.declare
        source = python.item(self.inputs, 0)
        numbers = o.check(b.call(declare("PyTuple_GetSlice", ptr, [ptr, i64, i64]), self.inputs, 1, self.n_inputs))
        step = o.check(python.new_tuple(3))
        python.set_item(step, 0, python.incref(self.op))
        python.set_item(step, 1, numbers)
        python.set_item(step, 2, python.incref(self.attrs))
        steps = b.var(ptr, o.check(python.new_tuple(1)))
        python.set_item(steps.value, 0, step)
        base = b.var(ptr, source)
        before = o.get(source, "tensor._alias")
        with b.if_(before != o.known("none")):
            base.set(o.get(before, "alias.base"))
            joined = b.call(declare("PySequence_Concat", ptr, [ptr, ptr]), o.get(before, "alias.steps"), steps.value)
            python.decref(steps.value)
            steps.set(o.check(joined))
        made = o.new("alias")
        o.set_shared(made, "alias.base", base.value)
        o.set(made, "alias.steps", steps.value)
        o.set_shared(made, "alias.version", o.get(o.get(source, "tensor._memory"), "storage.version"))
        return made

    def track(self, t: Value, plan: Value, embeds: Value) -> None:
        """`plan`: (what is kept, what computes the gradient); `embeds`: for a part, its layout in its source."""
        b, o, python = self.b, self.o, self.python
        gradient = b.select(embeds == o.known("none"), python.item(plan, 1), embeds)
        positions = python.item(plan, 0)
        nodes = o.check(python.new_tuple(self.n_inputs))
        with b.loop(0, self.n_inputs) as i:
            x = python.item(self.inputs, i)
            found = b.var(ptr, x)
            tensor, other = b.if_else(o.is_tensor(python.type_of(x)))
            with tensor:
                found.set(o.node_of(x))
            with other:
                python.incref(x)
            python.set_item(nodes, i, found.value)
        saved = o.check(python.new_tuple(self._size(positions)))
        with b.loop(0, self._size(positions)) as i:
            position = python.item(positions, i)
            number = python.as_int(position)
            of = b.var(ptr, t)
            with b.if_(number > 0):
                of.set(python.item(self.inputs, number - 1))
            python.set_item(saved, i, o.kept(position, of.value))
        o.set_node(t, self.op, nodes, self.attrs, saved, gradient)


def write_apply(module: IRModule, offsets: dict[str, int]) -> None:
    """extempo_apply(op, inputs, attrs={}): the result of an op that has one. Mirrors `dispatch.dispatcher.dispatch`."""
    with module.function("extempo_apply", ptr, self=ptr, args=ptr, nargs=i64) as b:
        run = _Apply(b, offsets)
        o, python = run.o, run.python
        grad, inference, recording = o.current_mode(run.slow, run.record_for)
        run.record_it(recording, (grad, inference))
        run.look_at_inputs()
        signature = run.find_signature()
        run.slow.take_if(run.only_view.value & (o.get(signature, "signature.view") == o.known("none")))
        run.slow.take_if(o.get(signature, "signature.numpy_dtype") == o.known("none"))  # several results
        floating = o.get(signature, "signature.floating") == o.known("true")
        is_tracked = (run.needs.value != 0) & grad & floating
        plan = run.find_plan(signature, is_tracked)
        type_, embeds, not_floating = (o.get(signature, f"signature.{slot}") for slot in ("type", "embeds", "reason"))
        array, is_view = run.run(signature)
        made = b.var(ptr, 0)
        shared, own = b.if_else(is_view)
        with shared:
            storage = python.incref(o.get(python.item(run.inputs, 0), "tensor._memory"))
            made.set(o.new_tensor(array, storage, python.incref(type_), run.alias()))
        with own:
            made.set(o.result(array, python.incref(type_)))
        t = made.value
        tracked, untracked = b.if_else(is_tracked)
        with tracked:
            run.track(t, plan, embeds)
        with untracked:
            off = b.select(inference, o.known("inference"), o.known("no_grad"))
            o.set_cut(t, run.needs.value != 0, b.select(grad, not_floating, off), run.cut.value)
        result = b.var(ptr, t)
        with b.if_(~is_view):
            inputs = b.byte_offset(run.inputs, TUPLE_ITEMS)
            result.set(checked(b, run.op, inputs, run.n_inputs, t, array))
        run.release()
        b.ret(result.value)
