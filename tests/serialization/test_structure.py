"""What goes in comes out: containers, numbers, tensors of every dtype."""

from __future__ import annotations

import io
import math
import threading
from collections import Counter, OrderedDict, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import extempo as ex
from extempo import nn, optim
from extempo.core.types import DTYPES
from extempo.errors import UnsupportedError
from extempo.serialization import load, save


def there_and_back(obj, **options):
    file = io.BytesIO()
    save(obj, file)
    file.seek(0)
    return load(file, **options)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**100), 2**100)
    | st.floats(allow_nan=False)
    | st.text(alphabet=st.characters())
    | st.binary()
    | st.complex_numbers(allow_nan=False)
)
KEYS = st.text() | st.integers() | st.booleans() | st.none() | st.tuples(st.integers(), st.text())
TREES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(KEYS, inner)
        | st.dictionaries(KEYS, inner).map(OrderedDict)
        | st.sets(KEYS)
        | st.frozensets(KEYS)
    ),
    max_leaves=15,
)


def same(a, b) -> bool:
    """Equal, of the same types, in the same order."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return same(list(a), list(b)) and same(list(a.values()), list(b.values()))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    return a == b


@settings(max_examples=100, deadline=None)
@given(TREES)
def test_any_plain_structure_comes_back_as_it_was(obj):
    assert same(there_and_back(obj), obj)


@pytest.mark.parametrize("d", DTYPES, ids=repr)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)], ids=str)
def test_tensors_of_every_dtype_and_shape_keep_their_bits(d, shape):
    x = (ex.randn(*shape) * 3 if shape else ex.tensor(2.5)).to(d)
    back = there_and_back(x)
    assert (back.shape, back.dtype, type(back)) == (x.shape, d, ex.Tensor)
    assert back.numpy().tobytes() == x.numpy().tobytes()
    assert back.numpy().flags.writeable


def test_numbers_that_json_lacks_survive():
    nan, inf, minus, large, zero = there_and_back([math.nan, math.inf, -math.inf, 10**400, -0.0])
    assert math.isnan(nan)
    assert (inf, minus, large) == (math.inf, -math.inf, 10**400)
    assert math.copysign(1, zero) == -1


def test_nan_payloads_and_signed_zeros_in_tensors_keep_their_bits():
    bits = np.array([0x7FC12345, 0x80000000, 0xFF800000], np.uint32)
    assert there_and_back(ex.from_numpy(bits.view(np.float32))).numpy().view(np.uint32).tolist() == bits.tolist()


def test_dtypes_devices_and_sizes_come_back_as_the_same_objects_or_equal_ones():
    back = there_and_back([ex.bfloat16, ex.bool, ex.device("cuda:1"), ex.Size([2, 3]), slice(1, None), range(0, 9, 2)])
    assert back[0] is ex.bfloat16
    assert back[1] is ex.bool
    assert back[2:] == [ex.device("cuda:1"), ex.Size([2, 3]), slice(1, None), range(0, 9, 2)]
    assert type(back[3]) is ex.Size


def test_numpy_arrays_and_scalars_come_back_as_numpy():
    arrays = [np.arange(6).reshape(2, 3)[:, ::-1], np.float32([1.5]), np.array(3, ">i4"), np.array([1, 2], np.uint64)]
    for before, after in zip(arrays, there_and_back(arrays), strict=True):
        assert type(after) is np.ndarray
        assert after.dtype == before.dtype.newbyteorder("=")
        np.testing.assert_array_equal(after, before)
    scalars = [np.float64(0.1), np.float32(0.1), np.int8(-3), np.bool_(True), np.float32("nan")]
    back = there_and_back(scalars)
    assert [type(v) for v in back] == [type(v) for v in scalars]
    assert back[:4] == scalars[:4]
    assert np.isnan(back[4])


def test_dict_types_keep_their_type_and_a_default_dict_of_a_function_becomes_a_dict():
    ordered = OrderedDict([("b", 1), ("a", 2)])
    ordered._metadata = {"": {"version": 1}}
    back = there_and_back([ordered, Counter("aab"), defaultdict(lambda: [0], {3: [1]}), defaultdict(list, {3: [1]})])
    assert [type(v) for v in back] == [OrderedDict, Counter, dict, defaultdict]
    assert list(back[0]) == ["b", "a"]
    assert back[0]._metadata == {"": {"version": 1}}
    assert back[1:] == [Counter("aab"), {3: [1]}, {3: [1]}]
    assert back[3]["new"] == []


def test_gradient_flags_and_parameters_survive_and_graphs_do_not():
    w = ex.ones(2, requires_grad=True)
    y = (w * 2).sum()
    y.backward()
    back = there_and_back({"w": w, "y": y, "p": nn.Parameter(ex.ones(2)), "frozen": nn.Parameter(ex.ones(1), False)})
    assert back["w"].requires_grad
    assert back["w"].grad is None
    assert back["y"].requires_grad
    assert back["y"].is_leaf
    assert type(back["p"]) is nn.Parameter
    assert back["p"].requires_grad
    assert type(back["frozen"]) is nn.Parameter
    assert not back["frozen"].requires_grad


def test_an_optimizer_state_with_number_keys_comes_back():
    state = {
        "state": {0: {"step": ex.tensor(3.0), "exp_avg": ex.randn(2, 2)}, 1: {}},
        "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "params": [0, 1], "fused": None}],
    }
    back = there_and_back(state)
    assert list(back["state"]) == [0, 1]
    assert back["param_groups"] == state["param_groups"]
    assert back["state"][0]["exp_avg"].equal(state["state"][0]["exp_avg"])


def test_training_resumed_from_a_file_gives_the_same_bits():
    def build():
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        return model, optim.AdamW(model.parameters(), amsgrad=True)

    def train(model, optimizer):
        for _ in range(3):
            optimizer.zero_grad()
            (model(x) ** 2).mean().backward()
            optimizer.step()

    x = ex.randn(6, 3)
    model, optimizer = build()
    train(model, optimizer)
    saved = there_and_back({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    train(model, optimizer)
    other, other_optimizer = build()
    other.load_state_dict(saved["model"])
    other_optimizer.load_state_dict(saved["optimizer"])
    train(other, other_optimizer)
    for name, value in model.state_dict().items():
        assert value.equal(other.state_dict()[name]), name


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda: 0, r'obj\["model"\]\["hook"\] is a lambda, which is code without a name'),
        ([].append, r"is of type builtin_function_or_method; it is not found again by its name"),
        (nn.Linear(1, 1).forward, r"is the method Linear\.forward of an object"),
        (np.array(["a"]), r"type ndarray; its dtype <U1 has no place"),
        (np.complex64(1j), r"type complex64; its dtype complex64 has no place"),
        (threading.Lock(), r"type lock; save it as tensors"),
        (iter(()), r"type tuple_iterator"),
    ],
    ids=lambda v: getattr(v, "__name__", type(v).__name__) if not isinstance(v, str) else "",
)
def test_an_object_that_cannot_be_saved_is_named_with_its_place(value, message):
    file = io.BytesIO()
    with pytest.raises(UnsupportedError, match=message):
        save({"model": {"hook": value}, "w": ex.ones(2)}, file)
    assert file.getvalue() == b"", "an error was found after writing had begun"


def test_a_structure_that_contains_itself_comes_back_so():
    loop: list = [1, {"self": None}]
    loop[1]["self"] = loop
    loop.append((loop,))
    back = there_and_back(loop)
    assert back[1]["self"] is back
    assert back[2][0] is back


def test_a_structure_that_never_ends_is_refused():
    deep: list = []
    for _ in range(100):
        deep = [deep]
    with pytest.raises(UnsupportedError, match="nested more than 64 levels"):
        save(deep, io.BytesIO())


class Odd:
    def __hash__(self):
        return 0


def test_keys_whose_comparison_is_code_are_refused():
    with pytest.raises(UnsupportedError, match=r'obj\["state"\] has a Odd as a key'):
        save({"state": {Odd(): 1}}, io.BytesIO())


def test_tensors_as_keys_stay_the_tensors_that_they_are():
    w = ex.ones(2)
    back = there_and_back({"w": w, "state": {w: {"step": 1}}})
    assert back["state"][back["w"]] == {"step": 1}


def test_what_is_shared_stays_shared():
    inner, pair = [1, 2], ([3], [4])
    back = there_and_back({"a": inner, "b": [inner, {"c": inner}], "pairs": [pair, pair]})
    assert back["a"] is back["b"][0] is back["b"][1]["c"]
    assert back["pairs"][0] is back["pairs"][1]
    assert back["pairs"] == [pair, pair]


def test_pairs_of_pairs_take_no_more_room_than_they_have():
    pairs: tuple = ([1],)
    for _ in range(40):
        pairs = (pairs, pairs)  # 2**40 parts, if each were written out
    back = there_and_back([pairs])
    for _ in range(40):
        back = back[0]
        assert back[0] is back[-1]


def test_equal_objects_make_equal_files():
    def written():
        file = io.BytesIO()
        save({"b": ex.ones(3), "a": [ex.zeros(2, dtype=ex.float64), ex.arange(4)[1:]]}, file)
        return file.getvalue()

    assert written() == written()
