"""Fields and functions of Python's and NumPy's objects, as native code sees them."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from extempo.backends.llvm.calls.callables import function
from extempo.backends.llvm.calls.cpython import NO_NUMBER, Python, numpy_functions, slot_offset
from extempo.backends.llvm.ir.builder import IRModule
from extempo.backends.llvm.ir.machine import CALLS, machine
from extempo.backends.llvm.ir.types import i64, ptr
from extempo.backends.selection import native

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


def python_function(write):
    """A Python function of which `write(b, python, args)` writes the code; it returns a new reference."""
    module = IRModule()
    with module.function("written", ptr, self=ptr, args=ptr, nargs=i64) as b:
        write(b, Python(b), b.pointer(b.arg("args"), ptr))
    library = machine().load(module.text(), ["written"], module.imports, CALLS)
    return function("written", library.address["written"], (library,))


def number_of(what):
    """The function that returns what `what(b, python, o)` finds of an object, as an int."""

    def write(b, python, args):
        b.ret(b.call(b.module.declare("PyLong_FromLongLong", ptr, [i64]), what(b, python, args[0])))

    return python_function(write)


@pytest.mark.parametrize(
    "array", [np.zeros((2, 3)), np.zeros((4, 6), np.int32)[::2, ::3], np.zeros(()), np.zeros((0, 5))]
)
def test_fields_of_arrays_are_where_numpy_has_them(array):
    assert number_of(lambda b, p, o: p.ndim(o))(array) == array.ndim
    assert number_of(lambda b, p, o: p.dtype_number(o))(array) == array.dtype.num
    assert number_of(lambda b, p, o: b.cast("ptrtoint", p.data(o), i64))(array) == array.ctypes.data
    for k in range(array.ndim):
        assert number_of(lambda b, p, o, k=k: p.shape(o)[k])(array) == array.shape[k]
        assert number_of(lambda b, p, o, k=k: p.strides(o)[k])(array) == array.strides[k]


def test_flags_of_arrays_are_numpys():
    read = number_of(lambda b, p, o: b.cast("sext", p.flags(o), i64))
    for array in (np.zeros(3), np.zeros((3, 4)).T, np.zeros(17, np.uint8)[1:].view(np.float64)):
        assert read(array) == array.flags.num


def test_slots_of_instances_are_found_by_their_descriptors():
    class Two:
        __slots__ = ("first", "second")

    two = Two()
    two.first, two.second = "one", "other"
    for name in ("first", "second"):
        offset = slot_offset(Two, name)
        read = number_of(lambda b, p, o, offset=offset: b.cast("ptrtoint", b.field(ptr, o, offset), i64))
        assert read(two) == id(getattr(two, name))


def test_comparing_is_pythons_and_says_no_where_it_cannot_be_done():
    class Incomparable:
        def __eq__(self, other):
            raise ValueError

    class Interrupting:
        def __eq__(self, other):
            raise KeyboardInterrupt

    def write(b, python, args):
        truth = b.cast("zext", python.equal(args[0], args[1]), i64)
        b.ret(python.unless_raised(b.call(b.module.declare("PyBool_FromLong", ptr, [i64]), truth)))

    equal = python_function(write)
    assert equal(1, 1.0) is True
    assert equal("a", "b") is False
    assert equal(Incomparable(), 1) is False
    with pytest.raises(KeyboardInterrupt):
        equal(Interrupting(), 1)


def test_an_exception_that_is_an_answer_is_forgotten_and_others_are_not():
    class Raising:
        def __init__(self, error):
            self.error = error

        def __index__(self):
            raise self.error

    def write(b, python, args):
        number = python.as_int(args[0])
        python.forget(*NO_NUMBER)
        made = b.call(b.module.declare("PyLong_FromLongLong", ptr, [i64]), number)
        b.ret(python.unless_raised(made))

    convert = python_function(write)
    assert convert(7) == 7
    for no_number in ("seven", 2**70, Raising(ValueError())):
        assert convert(no_number) == -1
    with pytest.raises(ZeroDivisionError):
        convert(Raising(ZeroDivisionError()))


def test_new_arrays_and_copies_are_aligned_and_in_the_order_asked_for():
    def write(b, python, args):
        b.ret(python.contiguous_copy(args[0]))

    source = np.arange(12.0).reshape(3, 4).T
    copied = python_function(write)(source)
    np.testing.assert_array_equal(copied, source)
    assert copied.flags.c_contiguous
    kept = python_function(lambda b, python, args: b.ret(python.aligned_copy(args[0])))(source)
    assert kept.strides == source.strides
    assert kept.flags.aligned


def test_numpys_functions_have_addresses():
    assert all(numpy_functions().values())
