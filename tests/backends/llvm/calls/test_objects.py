"""Extempo's objects in native code: slots by their offsets, what is made, and where the user's code stands."""

import pytest

pytest.importorskip("llvmlite")

import numpy as np

import extempo as ex
from extempo.backends.llvm.calls.callables import function
from extempo.backends.llvm.calls.objects import TABLE, Objects, object_new
from extempo.backends.llvm.ir.types import i64, ptr
from extempo.backends.selection import native
from extempo.core.graph import Node
from extempo.core.storage import Storage
from extempo.core.tensor import Tensor
from extempo.dispatch.fast_path import launcher

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


def native_function(name, write):
    """A Python function that knows Extempo's objects; `write(b, o, args)` returns a new reference."""
    loaded = launcher()

    def written(module):
        with module.function(f"test_{name}", ptr, self=ptr, args=ptr, nargs=i64) as b:
            o = Objects(b, loaded.offsets)
            b.ret(write(b, o, b.pointer(b.arg("args"), ptr)))

    # A fact of its own, so that other code is not taken for it.
    library = loaded.extend(written, [f"test_{name}"], loaded.offsets | {f"test.{name}": 0}, {})
    return function(name, library.address[f"test_{name}"])


@pytest.mark.parametrize(("slot", "attribute"), [("_data", "_data"), ("_type", "_type"), ("_memory", "_memory")])
def test_slots_are_read_where_python_has_them(slot, attribute):
    read = native_function(f"read{slot}", lambda b, o, args: o.python.incref(o.get(args[0], f"tensor.{slot}")))
    x = ex.ones(3)
    assert read(x) is getattr(x, attribute)


def test_a_result_has_an_array_a_type_and_a_storage_of_its_own():
    def write(b, o, args):
        t = o.result(o.python.incref(args[0]), o.python.incref(args[1]))
        o.set_cut(t, args[0] == args[1], o.known("no_grad"), o.known("none"))  # they differ: nothing is cut here
        return t

    array, like = np.arange(3, dtype=np.float32), ex.ones(3)
    t = native_function("result", write)(array, like._type)
    assert type(t) is Tensor
    assert t._array is array
    assert isinstance(t._memory, Storage)
    assert (t._memory.array is array, t._version, t.requires_grad, t._grad_barrier) == (True, 0, False, None)


def test_a_node_is_made_where_a_tensor_has_none_and_found_where_it_has_one():
    node_of = native_function("node_of", lambda b, o, args: o.node_of(args[0]))
    x = ex.ones(2, requires_grad=True)
    y = x * 2.0
    assert node_of(y) is y.grad_fn
    plain = ex.ones(2)
    made = node_of(plain)
    assert node_of(plain) is made
    assert type(made) is not Node  # no gradient flows to it


def test_what_a_node_keeps_of_a_tensor_is_its_array_storage_and_version():
    kept = native_function("kept", lambda b, o, args: o.kept(args[0], args[1]))
    x = ex.ones(2)
    x.add_(1.0)
    assert kept(7, x) == (7, x._array, x._memory, 1)


def test_values_are_those_of_tensors_that_have_them_now():
    values = native_function("values", lambda b, o, args: _or_none(b, o, args[0]))
    base = ex.zeros(4)
    part = base[1:]
    assert values(base) is base._array
    assert values(part) is part._array
    base.add_(1.0)  # the view's history is to be read anew
    assert values(part) is None


def _or_none(b, o, x):
    found = b.call(b.module.defined["extempo_values"], x)
    return o.python.incref(b.select(found == 0, o.known("none"), found))


def test_the_line_of_the_user_is_the_innermost_frame_outside_extempo():
    line = native_function("line", lambda b, o, args: b.call(b.module.defined["extempo_line"]))
    code, instruction = line()
    assert code.co_name == "test_the_line_of_the_user_is_the_innermost_frame_outside_extempo"
    assert isinstance(instruction, int)


def test_the_table_has_an_address_for_every_name():
    known = launcher()._known
    assert set(TABLE) - {"new"} <= set(known)
    assert object_new() != 0
