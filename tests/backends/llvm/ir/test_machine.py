"""From IR text to addresses: the same text once, other modules' functions by name, and what the process lacks."""

import ctypes

import pytest

pytest.importorskip("llvmlite")

from extempo.backends.llvm.ir.builder import IRModule, i64
from extempo.backends.llvm.ir.machine import CALLS, Machine, ObjectEmitter, Processor, host, machine


def answering(name, number):
    module = IRModule()
    with module.function(name, i64) as b:
        b.ret(number)
    return module


def run(library, name):
    return ctypes.CFUNCTYPE(ctypes.c_int64)(library.address[name])()


def test_there_is_one_machine():
    assert machine() is machine()


def test_a_text_is_compiled_once_and_found_on_disk_by_another_machine(no_kernels_on_disk):
    text, names = answering("forty_two", 42).text(), ["forty_two"]
    first = Machine()
    assert first.find(names, text=text) is None
    library = first.load(text, names, [])
    assert first.load(text, names, []) is library
    assert (first.compiled, first.loaded) == (1, 1)
    second = Machine()
    found = second.find(names, text=text)
    assert run(found, "forty_two") == 42
    assert (second.compiled, second.loaded) == (0, 1)


def test_what_follows_from_an_identity_is_written_only_where_it_is_not_known(no_kernels_on_disk):
    written = []

    def write():
        written.append(1)
        return answering("seven", 7)

    first = Machine()
    assert run(first.load_as("seven, as text", ["seven"], write), "seven") == 7
    first.load_as("seven, as text", ["seven"], write)
    assert run(Machine().load_as("seven, as text", ["seven"], write), "seven") == 7
    assert len(written) == 1


def test_a_text_that_is_loaded_is_not_compiled_again_for_an_identity(no_kernels_on_disk):
    first, module = Machine(), answering("eight", 8)
    library = first.load(module.text(), ["eight"], [])
    assert first.load_as("eight, as text", ["eight"], lambda: module) is library
    assert first.compiled == 1
    # The next process finds it by that identity, without writing it.
    assert Machine().find(["eight"], identity="eight, as text") is not None


def test_a_kind_of_code_is_part_of_what_is_kept(no_kernels_on_disk):
    one = Machine()
    text = answering("one", 1).text()
    assert one.load(text, ["one"], []) is not one.load(text, ["one"], [], CALLS)
    assert one.compiled == 2


def test_a_function_that_is_offered_can_be_declared_by_its_name(no_kernels_on_disk):
    one = Machine()
    inner = one.load(answering("inner_answer", 20).text(), ["inner_answer"], [])
    one.offer("inner_answer", inner.address["inner_answer"])
    module = IRModule()
    with module.function("outer_answer", i64) as b:
        b.ret(b.call(module.declare("inner_answer", i64, [])) + 1)
    assert module.imports == ["inner_answer"]
    assert run(one.load(module.text(), ["outer_answer"], module.imports), "outer_answer") == 21


def test_a_function_that_nobody_has_is_named(no_kernels_on_disk):
    module = IRModule()
    with module.function("lost", i64) as b:
        b.ret(b.call(module.declare("no_such_function_anywhere", i64, [])))
    with pytest.raises(LookupError, match="no_such_function_anywhere"):
        Machine().load(module.text(), ["lost"], module.imports)


# Processors


@pytest.mark.parametrize(
    ("processor", "vector_bytes", "multiplies_and_adds", "links_nearby"),
    [
        (Processor("x86_64-unknown-linux-gnu", "znver4", "+avx2,+fma,+avx512f"), 64, True, True),
        (Processor("x86_64-unknown-linux-gnu", "haswell", "+avx2,+fma,-avx512f"), 32, True, True),
        (Processor("x86_64-unknown-linux-gnu", "x86-64", "+sse2,-avx2,-fma"), 32, False, True),
        (Processor("aarch64-unknown-linux-gnu", "generic", "+neon"), 32, True, True),
        (Processor("arm64-apple-darwin24.0.0", "apple-m1", "+neon"), 32, True, False),
    ],
    ids=lambda value: value.cpu if isinstance(value, Processor) else "",
)
def test_vectors_and_linking_follow_from_the_processor(processor, vector_bytes, multiplies_and_adds, links_nearby):
    assert processor.vector_bytes == vector_bytes
    assert processor.multiplies_and_adds is multiplies_and_adds
    assert processor.links_nearby is links_nearby


def test_an_emitter_for_the_host_emits_what_is_loaded_here():
    module = answering("nine", 9)
    emitter = ObjectEmitter(host())
    assert emitter.object_code(module.text(), CALLS).startswith((b"\x7fELF", b"\xcf\xfa\xed\xfe"))
    assert "nine" in emitter.assembly(module.text())
