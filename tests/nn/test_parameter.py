"""Parameters and buffers: tensors that register themselves."""

from __future__ import annotations

import copy
import pickle

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import DtypeError


def test_a_parameter_shares_memory_with_its_tensor_and_is_a_leaf():
    data = ex.zeros(2)
    p = nn.Parameter(data)
    data.fill_(3.0)
    assert p.tolist() == [3.0, 3.0]
    assert p.requires_grad
    assert p.is_leaf
    assert not nn.Parameter(data, requires_grad=False).requires_grad


def test_a_parameter_of_a_computed_tensor_is_cut_from_its_graph():
    x = ex.ones(2, requires_grad=True)
    p = nn.Parameter(x * 2)
    (p * 3).sum().backward()
    assert x.grad is None
    assert p.grad.tolist() == [3.0, 3.0]


def test_ops_on_parameters_give_plain_tensors():
    p = nn.Parameter(ex.ones(2))
    for result in (p + 1, p.detach(), p.data, p.clone(), p[0], p.exp(), 2 * p, p @ p):
        assert type(result) is ex.Tensor


def test_writing_to_the_tensor_behind_a_parameter_is_noticed_by_backward():
    data = ex.ones(2)
    p = nn.Parameter(data)
    loss = (p * p).sum()
    data.add_(1.0)
    with pytest.raises(RuntimeError, match=r"in place|changed"):
        loss.backward()


def test_a_parameter_copies_without_gradient_and_pickles():
    p = nn.Parameter(ex.tensor([1.0, 2.0]), requires_grad=True)
    p.sum().backward()
    p.tag = "kept"
    copied, restored = copy.deepcopy(p), pickle.loads(pickle.dumps(p))
    for q in (copied, restored):
        assert type(q) is nn.Parameter
        assert q.requires_grad
        assert q.tag == "kept"
        assert q.tolist() == [1.0, 2.0]
    assert copied.grad is None
    copied.data.fill_(0.0)
    assert p.tolist() == [1.0, 2.0]


def test_wrong_parameters_are_refused_with_advice():
    with pytest.raises(DtypeError, match=r"nn\.Parameter\(ex\.tensor"):
        nn.Parameter([1.0])
    with pytest.raises(DtypeError, match="requires_grad=False"):
        nn.Parameter(ex.tensor([1]))
    assert nn.Parameter(ex.tensor([1]), requires_grad=False).dtype is ex.int64
    assert nn.Parameter().shape == (0,)


def test_a_buffer_registers_itself_and_can_stay_out_of_the_state():
    module = nn.Module()
    module.kept = nn.Buffer(ex.zeros(2))
    module.dropped = nn.Buffer(ex.zeros(2), persistent=False)
    assert [name for name, _ in module.named_buffers()] == ["kept", "dropped"]
    assert list(module.state_dict()) == ["kept"]
    module.kept = ex.ones(3)
    assert module.get_buffer("kept").tolist() == [1.0, 1.0, 1.0]


def test_a_parameter_without_a_shape_gets_memory_and_is_one():
    weight = nn.parameter.UninitializedParameter(dtype=ex.float64)
    optimizer = ex.optim.SGD([weight], lr=0.5)
    assert nn.parameter.is_lazy(weight)
    assert isinstance(weight, nn.Parameter)
    assert repr(weight) == "<UninitializedParameter>"
    weight.materialize((2, 3))
    assert (type(weight), weight.dtype, weight.requires_grad) == (nn.Parameter, ex.float64, True)
    nn.init.ones_(weight)
    weight.sum().backward()
    optimizer.step()
    assert weight.tolist() == [[0.5] * 3] * 2


def test_a_buffer_without_a_shape_gets_memory_and_is_one():
    module = nn.Module()
    module.mean = nn.parameter.UninitializedBuffer(persistent=False)
    assert nn.parameter.is_lazy(module.mean)
    module.mean.materialize(2, dtype=ex.int64)
    assert type(module.mean) is nn.Buffer
    assert (module.mean.dtype, tuple(module.mean.shape), module.mean.requires_grad) == (ex.int64, (2,), False)
    assert list(module.state_dict()) == []


def test_a_class_of_ones_own_shares_memory_by_make_subclass_and_the_graph_by_as_subclass():
    class Image(ex.Tensor):
        pass

    data = ex.ones(2)
    image = ex.Tensor._make_subclass(Image, data, True)
    data.mul_(3)
    assert type(image) is Image
    assert image.is_leaf
    assert image.tolist() == [3, 3]
    (image * 2).sum().backward()
    assert image.grad.tolist() == [2, 2]

    x = ex.ones(2, requires_grad=True)
    y = (x * 2).as_subclass(Image)
    assert type(y) is Image
    (y * y).sum().backward()
    assert x.grad.tolist() == [8, 8]


def test_both_lazy_tensors_are_of_one_kind():
    assert isinstance(nn.UninitializedParameter(), nn.parameter.UninitializedTensorMixin)
    assert repr(nn.UninitializedBuffer()) == "<UninitializedBuffer>"
