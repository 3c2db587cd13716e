"""safe_globals and its fellows."""

from __future__ import annotations

import io

import pytest

import extempo as ex
from extempo.errors import DtypeError, UnsupportedError
from extempo.serialization import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    load,
    safe_globals,
    save,
)


class Vocabulary:
    def __init__(self, words):
        self.words = words

    def __eq__(self, other):
        return self.words == other.words

    __hash__ = None  # type: ignore[assignment]


class Slotted:
    __slots__ = ("x",)


class Stack(list):
    pass


class Temperature(float):
    pass


def swish(x):
    return x * ex.sigmoid(x)


def written(obj) -> io.BytesIO:
    file = io.BytesIO()
    save(obj, file)
    file.seek(0)
    return file


def again(file: io.BytesIO) -> io.BytesIO:
    return io.BytesIO(file.getvalue())


@pytest.fixture(autouse=True)
def no_names():
    clear_safe_globals()
    yield
    clear_safe_globals()


def test_a_class_of_the_program_is_refused_until_it_is_vouched_for():
    file = written({"vocabulary": Vocabulary(["a", "b"])})
    with pytest.raises(UnsupportedError, match=r"needs .*names\.Vocabulary, .*safe_globals\(\[Vocabulary\]\)"):
        load(again(file))
    with safe_globals([Vocabulary]):
        assert load(again(file))["vocabulary"].words == ["a", "b"]
    with pytest.raises(UnsupportedError, match="Vocabulary"):
        load(again(file))
    add_safe_globals([Vocabulary])
    assert load(again(file))["vocabulary"].words == ["a", "b"]


def test_functions_of_the_program_are_kept_by_name_and_vouched_for():
    file = written([swish])
    with pytest.raises(UnsupportedError, match="swish, which is refused"):
        load(again(file))
    with safe_globals([swish]):
        assert load(again(file)) == [swish]


def test_subclasses_of_containers_and_numbers_and_slots_come_back_if_vouched_for():
    slotted = Slotted()
    slotted.x = [1]
    stack = Stack([1, slotted])
    stack.name = "s"
    with safe_globals([Stack, Slotted, Temperature]):
        back, degrees = load(written([stack, Temperature(3.5)]))
    assert type(back) is Stack
    assert back.name == "s"
    assert back[1].x == [1]
    assert (type(degrees), degrees) == (Temperature, 3.5)


def test_a_name_can_stand_for_another_one():
    file = written(Vocabulary([1]))
    raw = file.getvalue()
    old = raw.replace(b"Vocabulary", b"Vocabularz")

    with pytest.raises(ex.serialization.FileFormatError, match="not the one that was saved"):
        load(io.BytesIO(old))  # the checksum knows

    class Renamed(Vocabulary):
        pass

    with safe_globals([(Renamed, f"{__name__}.Vocabulary")]):
        assert type(load(file)) is Renamed


def test_the_list_is_given_out_as_a_copy_and_blocks_put_it_back():
    add_safe_globals([Stack])
    get_safe_globals().clear()
    assert get_safe_globals() == [Stack]
    with safe_globals([Slotted]):
        assert get_safe_globals() == [Stack, Slotted]
    assert get_safe_globals() == [Stack]


def test_an_error_of_vouched_code_is_told_as_its_own():
    class Fails(Vocabulary):
        def __setstate__(self, state):
            raise OSError("no disk")

    with (
        safe_globals([(Fails, f"{__name__}.Vocabulary")]),
        pytest.raises(UnsupportedError, match="raised OSError: no d"),
    ):
        load(written(Vocabulary([1])))


@pytest.mark.parametrize("wrong", [Vocabulary, "name", ["name"], [3], [ex.compile], [(Vocabulary, 3)]])
def test_what_is_no_list_of_names_is_refused(wrong):
    with pytest.raises(DtypeError, match="safe_globals: expected"):
        add_safe_globals(wrong)
