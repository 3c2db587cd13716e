"""extempo_plan_run: the native code of a plan's callable; see runner.py for what it promises.

The record, int64 throughout: a head, then sections of
- kinds: for each number 0 float, 1 int, 2 bool;
- outputs: (base, NumPy dtype, number of dimensions, bytes, where its sizes are in `shapes`, and where its strides are
  there; -1: it is row-major);
- derived: (base, base it starts from, offset, step, number of starts), then (number, stride, largest) for each start;
- operands: (base, offset), of all instructions in a row;
- instructions: see `INSTRUCTION`;
- meta: of instructions, where no number of a run is in it; patched: where one is, copied for every run;
- patches: (place in patched, number, whether it is an int that becomes a double).

A run's own block: one of `SECTIONS` after the other, 8 bytes an entry, then the arena.
"""

from __future__ import annotations

from ..calls.cpython import BLOCK_DATA, NO_NUMBER, Python
from ..calls.nan_checks import count_output, count_run, write_counts
from ..calls.probes import INSTRUCTION_SITE, now, record
from ..ir.builder import IRFunction, IRModule, Pointer, Value, f64, i8, i32, i64, ptr

# What a run holds of its own.
SECTIONS = ("bases", "operands", "meta", "numbers", "inputs", "outputs")
INSTRUCTION = ("address", "first_operand", "first_meta", "owns_meta", "step")
OPERAND_WORDS, OUTPUT_WORDS, _DERIVED_WORDS, _START_WORDS, _PATCH_WORDS = 2, 6, 5, 3, 3
_RECORDED = ("kinds", "outputs", "shapes", "derived", "operands", "instructions", "meta", "patched", "patches")
HEAD = (
    *("n_inputs", "n_numbers", "n_outputs", "n_derived", "n_operands", "n_instructions", "n_patched", "n_patches"),
    *("array_type", "block_bytes", "arena_at"),
    *(f"{name}_at" for name in _RECORDED),
    *(f"own_{name}_at" for name in SECTIONS),
)
_REPLAY = -1  # the answer where an argument is not what the plan was built for


class _PlanRun:
    """Writes the function. Whatever goes wrong ends in `leave`, which lets go of all that was taken."""

    def __init__(self, b: IRFunction) -> None:
        self.b = b
        self.python = Python(b)
        self.record = Pointer(self.python.bytes_of(self.python.item(b.arg("self"), 0)), i64)
        self.n_held = b.var(i64, 0)
        self.n_made = b.var(i64, 0)
        self.block = b.var(ptr, 0)
        self.answer = b.var(ptr, 0)
        self.end = b.way_out(self._end)

    def head(self, name: str) -> Value:
        return self.record[HEAD.index(name)]

    def recorded(self, name: str) -> Pointer:
        return self.record + self.head(f"{name}_at")

    def own(self, name: str) -> Pointer:
        """A section of the run's block."""
        words = Pointer(self.data, i64) + self.head(f"own_{name}_at")
        return words if name in ("meta", "numbers") else Pointer(words.address, ptr)

    def begin(self) -> None:
        """Check the arguments, take the block and hold the inputs."""
        b, python = self.b, self.python
        size = b.module.declare("PyList_Size", i64, [ptr])
        given = b.pointer(b.arg("args"), ptr)
        self.arrays, self.numbers, self.places = given[0], given[1], b.var(ptr, 0)
        self.start, has_rows = b.var(i64, 0), b.var(ptr, 0)
        with b.if_((b.arg("nargs") != 2) & (b.arg("nargs") != 5)):
            b.ret(self._number(_REPLAY))

        def check(listed: Value, expected: str) -> None:
            n = b.call(size, listed)
            with b.if_(n < 0):
                b.ret(b.const(ptr, 0))
            with b.if_(n != self.head(expected)):
                b.ret(self._number(_REPLAY))

        check(self.arrays, "n_inputs")
        check(self.numbers, "n_numbers")
        with b.if_(b.arg("nargs") == 5):
            self.places.set(given[2])
            check(self.places.value, "n_outputs")
            self.start.set(python.as_int(given[3]))
            has_rows.set(b.call(b.module.declare("PyBytes_AsString", ptr, [ptr]), given[4]))
            with b.if_(has_rows.value == 0):
                b.ret(b.const(ptr, 0))
        self.block.set(python.take(self.head("block_bytes")))
        with b.if_(self.block.value == 0):
            b.ret(b.const(ptr, 0))
        self.data = b.field(ptr, self.block.value, BLOCK_DATA)
        python.incref(b.arg("self"))
        item = b.module.declare("PyList_GetItem", ptr, [ptr, i64])
        held, bases = self.own("inputs"), self.own("bases")
        with b.loop(0, self.head("n_inputs")) as i:
            array = b.call(item, self.arrays, i)
            with b.if_(~self._is_array(array)):
                self.leave(self._number(_REPLAY))
            held[i] = python.incref(array)
            self.n_held.set(i + 1)
            bases[i] = python.data(array)
            with b.if_(has_rows.value != 0), b.if_(Pointer(has_rows.value, i8)[i] != 0):
                bases[i] = self._from_start(array)

    def _from_start(self, array: Value) -> Value:
        return self.b.byte_offset(self.python.data(array), self.start.value * self.python.strides(array)[0])

    def _is_array(self, o: Value) -> Value:
        type_ = self.b.emit(i64, f"ptrtoint ptr {self.python.type_of(o).text} to i64")
        return type_ == self.head("array_type")

    def leave(self, answer: Value) -> None:
        """Return the answer; arrays that were made and not given away are let go."""
        self.answer.set(answer)
        self.end.take()

    def _end(self) -> None:
        python = self.python
        for name, n in (("outputs", self.n_made), ("inputs", self.n_held)):
            arrays = self.own(name)
            with self.b.loop(0, n.value) as i:
                python.decref(arrays[i])
        python.decref(self.block.value)
        python.decref(self.b.arg("self"))
        self.b.ret(self.answer.value)

    def _number(self, value: int | Value) -> Value:
        return self.b.call(self.b.module.declare("PyLong_FromLongLong", ptr, [i64]), value)

    def read_numbers(self) -> None:
        """Python's numbers as doubles, int64 and bytes, each in a place of 8."""
        b, python = self.b, self.python
        kinds, own = self.recorded("kinds"), self.own("numbers")
        item = b.module.declare("PyList_GetItem", ptr, [ptr, i64])
        with b.loop(0, self.head("n_numbers")) as i:
            number, kind = b.call(item, self.numbers, i), kinds[i]
            python.incref(number)  # a conversion may run Python code, which may even make the list shorter
            there = number != 0
            with b.if_(there & (kind == 0)):
                own[i] = b.bitcast(python.as_double(number), i64)
            with b.if_(there & (kind == 1)):
                own[i] = python.as_int(number)
            with b.if_(there & (kind == 2)):
                truth = b.call(b.module.declare("PyObject_IsTrue", i32, [ptr]), number)
                own[i] = b.cast("sext", truth, i64)
            python.decref(number)
            with b.if_(python.is_raised()):
                python.forget(*NO_NUMBER, "IndexError")
                with b.if_(python.is_raised()):
                    self.leave(b.const(ptr, 0))
                self.leave(self._number(_REPLAY))

    def make_outputs(self) -> None:
        b, python = self.b, self.python
        entries, shapes, made, bases = (
            self.recorded("outputs"),
            self.recorded("shapes"),
            self.own("outputs"),
            self.own("bases"),
        )
        with b.loop(0, self.head("n_outputs")) as i:
            base, dtype, ndim, nbytes, sizes, strides_at = (entries[i * OUTPUT_WORDS + k] for k in range(OUTPUT_WORDS))
            array = b.var(ptr, 0)
            with b.if_(self.places.value != 0):
                place = b.call(b.module.declare("PyList_GetItem", ptr, [ptr, i64]), self.places.value, i)
                with b.if_(self._is_array(place)):
                    array.set(python.incref(place))
                    bases[base] = self._from_start(place)
            with b.if_(array.value == 0):
                descriptor = b.emit(ptr, f"inttoptr i64 {dtype.text} to ptr")
                strides = b.select(strides_at < 0, b.const(ptr, 0), shapes.at(strides_at))
                array.set(python.empty(descriptor, ndim, shapes.at(sizes), nbytes, strides))
                with b.if_(array.value == 0):
                    self.leave(array.value)
                bases[base] = python.data(array.value)
            made[i] = array.value
            self.n_made.set(i + 1)

    def set_bases(self) -> None:
        """Those that are not arrays: the arena, the numbers, null, and the derived ones."""
        b = self.b
        bases, numbers, n_inputs = self.own("bases"), self.own("numbers"), self.head("n_inputs")
        bases[n_inputs] = b.byte_offset(self.data, self.head("arena_at"))
        bases[n_inputs + 1] = numbers.address
        bases[n_inputs + 2] = b.const(ptr, 0)
        place = b.var(i64, self.head("derived_at"))
        with b.loop(0, self.head("n_derived")):
            entry = self.record + place.value
            base, source, offset, step, n_starts = (entry[k] for k in range(_DERIVED_WORDS))
            address = b.var(ptr, b.byte_offset(bases[source], offset))
            starts = entry + _DERIVED_WORDS
            with b.loop(0, n_starts) as i:
                number, stride, largest = (starts[i * _START_WORDS + k] for k in range(_START_WORDS))
                value = numbers[number]
                with b.if_((value < 0) | (value > largest)):
                    self.leave(self._number(step))
                address.set(b.byte_offset(address.value, value * stride))
            bases[base] = address.value
            place.set(place.value + _DERIVED_WORDS + n_starts * _START_WORDS)

    def relocate(self) -> None:
        """The addresses of all operands, and the run's copy of the meta that holds numbers."""
        b = self.b
        entries, bases, operands = self.recorded("operands"), self.own("bases"), self.own("operands")
        with b.loop(0, self.head("n_operands")) as i:
            entry = entries + i * OPERAND_WORDS
            operands[i] = b.byte_offset(bases[entry[0]], entry[1])
        shared, own, numbers = self.recorded("patched"), self.own("meta"), self.own("numbers")
        with b.loop(0, self.head("n_patched")) as i:
            own[i] = shared[i]
        patches = self.recorded("patches")
        with b.loop(0, self.head("n_patches")) as i:
            place, number, widens = (patches[i * _PATCH_WORDS + k] for k in range(_PATCH_WORDS))
            value = numbers[number]
            own[place] = b.select(widens != 0, b.bitcast(b.cast("sitofp", value, f64), i64), value)

    def walk(self, is_timed: bool) -> None:
        """Every instruction in order, until one fails; timed, with a record of each."""
        b = self.b
        begin = b.var(i64, now(b) if is_timed else 0)
        instructions, operands = self.recorded("instructions"), self.own("operands")
        shared, own = self.recorded("meta"), self.own("meta")
        with b.loop(0, self.head("n_instructions")) as i:
            entry = instructions + i * len(INSTRUCTION)
            field = {name: entry[k] for k, name in enumerate(INSTRUCTION)}
            code = b.emit(ptr, f"inttoptr i64 {field['address'].text} to ptr")
            meta = Pointer(b.select(field["owns_meta"] != 0, own.address, shared.address), i64)
            status = b.call_address(code, i64, operands.at(field["first_operand"]), meta.at(field["first_meta"]))
            if is_timed:
                end = now(b)
                record(b, begin.value, end, INSTRUCTION_SITE, object=b.arg("self"), index=i)
                begin.set(end)
            with b.if_(status != 0):
                self.leave(self._number(field["step"]))

    def give_outputs(self, is_checked: bool) -> None:
        b = self.b
        n, made = self.head("n_outputs"), self.own("outputs")
        listed = b.call(b.module.declare("PyList_New", ptr, [i64]), n)
        with b.if_(listed == 0):
            self.leave(listed)
        put = b.module.declare("PyList_SetItem", i32, [ptr, i64, ptr])
        if is_checked:
            count_run(b)
        with b.loop(0, n) as i:
            if is_checked:
                count_output(b, made[i])
            b.call(put, listed, i, made[i])
        self.n_made.set(0)
        self.leave(listed)


def write_run(module: IRModule, is_timed: bool = False, is_checked: bool = False) -> None:
    """`is_timed`: for a profile, a record is written of every instruction; `is_checked`: nan is counted in outputs."""
    if is_checked:
        write_counts(module)
    with module.function("extempo_plan_run", ptr, self=ptr, args=ptr, nargs=i64) as b:
        run = _PlanRun(b)
        run.begin()
        run.read_numbers()
        run.make_outputs()
        run.set_bases()
        run.relocate()
        run.walk(is_timed)
        run.give_outputs(is_checked)
