"""Entry to elementwise kernels that is safe when other threads may run: it takes references of its own, and aligned
copies of unaligned inputs.
"""

from __future__ import annotations

from ..calls.cpython import ALIGNED, Python
from ..ir.builder import IRModule, Pointer, i64, ptr
from .broadcasting import ARRAY_TYPE, BUILD, DONE, FAILED, MAX_INPUTS, TO_BE_HELD, write_run


def _write_aligned(module: IRModule) -> None:
    """aligned(input, type of arrays): the input, or an aligned copy of an array that is not; a new reference."""
    with module.function("aligned", ptr, internal=True, x=ptr, array_type=i64) as b:
        python, x = Python(b), b.arg("x")
        type_ = b.emit(i64, f"ptrtoint ptr {python.type_of(x).text} to i64")
        with b.if_(type_ == b.arg("array_type")), b.if_((python.flags(x) & ALIGNED) == 0):
            b.ret(python.aligned_copy(x))
        b.ret(python.incref(x))


def _write_held_run(module: IRModule) -> None:
    """elementwise_held_run: on references to the kernel, to the inputs, and to results that are there already."""
    with module.function(
        "elementwise_held_run", i64, internal=True, record=ptr, inputs=ptr, results=ptr, given=i64
    ) as b:
        python, record = Python(b), Pointer(b.arg("record"), i64)
        n_inputs, n_results = record[0], b.select(b.arg("given") != 0, record[1], 0)
        build = python.incref(b.emit(ptr, f"inttoptr i64 {record[BUILD].text} to ptr"))  # it holds the record
        inputs, results = b.array(ptr, MAX_INPUTS), Pointer(b.arg("results"), ptr)
        n_held, status = b.var(i64, 0), b.var(i64, DONE)
        with b.loop(0, n_inputs) as i:
            inputs[i] = b.call(module.defined["aligned"], Pointer(b.arg("inputs"), ptr)[i], record[ARRAY_TYPE])
            with b.if_(inputs[i] == 0):
                status.set(FAILED)
                b.break_()
            n_held.set(i + 1)
        with b.loop(0, n_results) as i:
            python.incref(results[i])
        with b.if_(status.value == DONE):
            run, given = module.defined["elementwise_run"], b.arg("given")
            status.set(b.call(run, b.arg("record"), inputs.address, results.address, given, 1))
        with b.loop(0, n_held.value) as i:
            python.decref(inputs[i])
        with b.loop(0, n_results) as i:
            python.decref(results[i])
        python.decref(build)
        b.ret(status.value)


def write_any_run(module: IRModule) -> None:
    """elementwise_any(record, inputs, results, given) -> DONE, DECLINED or FAILED."""
    write_run(module)
    _write_aligned(module)
    _write_held_run(module)
    with module.function("elementwise_any", i64, record=ptr, inputs=ptr, results=ptr, given=i64) as b:
        values = [b.arg(name) for name in ("record", "inputs", "results", "given")]
        status = b.call(module.defined["elementwise_run"], *values, 0)
        with b.if_(status == TO_BE_HELD):
            b.ret(b.call(module.defined["elementwise_held_run"], *values))
        b.ret(status)
