"""Functions written as IR, compiled, and called from Python."""

import ctypes

from extempo.backends.llvm.ir.builder import IRModule, f32, f64, i1, i32, i64, ptr, void
from extempo.backends.llvm.ir.machine import KERNEL, machine

C = {
    i1: ctypes.c_bool, i64: ctypes.c_int64, i32: ctypes.c_int32, f32: ctypes.c_float, f64: ctypes.c_double,
    ptr: ctypes.c_void_p, void: None,
}  # fmt: skip


def compiled(write, returns, kind=KERNEL, **args):
    """The function that `write(b)` writes, as a Python callable."""
    module = IRModule()
    with module.function("written", returns, **args) as b:
        write(b)
    return _loaded(module, returns, args, kind)


def inner(write, name, returns, kind=KERNEL, **args):
    """The function `name` of the module that `write(module)` writes, which need not be exported."""
    module = IRModule()
    write(module)
    with module.function("written", returns, **args) as b:
        made = b.call(module.defined[name], *(b.arg(a) for a in args))
        b.ret(*(() if returns is void else (made,)))
    return _loaded(module, returns, args, kind)


def _loaded(module, returns, args, kind):
    library = machine().load(module.text(), ["written"], module.imports, kind)
    function = ctypes.PYFUNCTYPE(C[returns], *(C[t] for t in args.values()))(library.address["written"])
    function.library = library
    return function


def address(array):
    """Where an array's first element is."""
    return array.ctypes.data
