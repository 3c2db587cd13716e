"""Layers with parameters: how they start, what they refuse, what they keep."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.errors import IndexRangeError, ShapeError, UnsupportedError


def fan_in_bound(weight: ex.Tensor) -> float:
    return 1 / math.sqrt(math.prod(weight.shape[1:]))


@pytest.mark.parametrize(
    "layer",
    [
        lambda: nn.Linear(50, 400),
        lambda: nn.Conv1d(8, 400, 5),
        lambda: nn.Conv2d(8, 400, 3, groups=2),
        lambda: nn.Conv3d(4, 100, 2),
        lambda: nn.ConvTranspose1d(400, 8, 5),
        lambda: nn.ConvTranspose2d(400, 8, 3),
        lambda: nn.ConvTranspose3d(100, 8, 2),
    ],
)
def test_weights_start_uniform_within_the_bound_of_their_fan_in(layer):
    ex.manual_seed(0)
    made = layer()
    bound = fan_in_bound(made.weight)
    for values in (made.weight.detach().numpy(), made.bias.detach().numpy()):
        assert np.abs(values).max() <= bound
    weight = made.weight.detach().numpy()
    assert np.abs(weight).max() > 0.95 * bound
    assert weight.std() == pytest.approx(bound / math.sqrt(3), rel=0.05)
    assert weight.mean() == pytest.approx(0, abs=0.05 * bound)


def test_bilinear_starts_within_the_bound_of_its_first_input():
    ex.manual_seed(0)
    layer = nn.Bilinear(16, 3, 50)
    assert float(layer.weight.detach().abs().max()) <= 0.25
    assert float(layer.weight.detach().std()) == pytest.approx(0.25 / math.sqrt(3), rel=0.05)


def test_embeddings_start_normal_with_a_zero_row_for_padding():
    ex.manual_seed(0)
    table = nn.Embedding(200, 50, padding_idx=-2).weight.detach().numpy()
    assert not table[198].any()
    assert np.delete(table, 198, 0).std() == pytest.approx(1, rel=0.05)


def test_norms_start_at_one_and_zero():
    for layer in (nn.BatchNorm1d(3), nn.LayerNorm((2, 3)), nn.GroupNorm(1, 3), nn.InstanceNorm2d(3, affine=True)):
        assert bool((layer.weight == 1).all())
        assert bool((layer.bias == 0).all())
    assert bool((nn.RMSNorm(3).weight == 1).all())
    assert nn.PReLU(2, init=0.1).weight.tolist() == pytest.approx([0.1, 0.1])


def test_the_same_seed_gives_the_same_weights():
    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(3, 4), nn.Conv1d(2, 3, 2), nn.Embedding(5, 2))

    ex.manual_seed(3)
    first = make().state_dict()
    ex.manual_seed(3)
    second = make().state_dict()
    ex.manual_seed(4)
    third = make().state_dict()
    assert all(bool((first[key] == second[key]).all()) for key in first)
    assert not any(bool((first[key] == third[key]).all()) for key in first)


FACTORIES = [
    lambda **given: nn.Linear(3, 2, **given),
    lambda **given: nn.Bilinear(3, 2, 4, **given),
    lambda **given: nn.Embedding(3, 2, **given),
    lambda **given: nn.EmbeddingBag(3, 2, **given),
    lambda **given: nn.Conv2d(3, 2, 2, **given),
    lambda **given: nn.ConvTranspose3d(3, 2, 2, **given),
    lambda **given: nn.BatchNorm2d(3, **given),
    lambda **given: nn.InstanceNorm1d(3, affine=True, track_running_stats=True, **given),
    lambda **given: nn.LayerNorm(3, **given),
    lambda **given: nn.RMSNorm(3, **given),
    lambda **given: nn.GroupNorm(1, 3, **given),
    lambda **given: nn.PReLU(3, **given),
    lambda **given: nn.LazyLinear(3, **given),
    lambda **given: nn.AdaptiveLogSoftmaxWithLoss(8, 5, [2], **given),
    lambda **given: nn.LinearCrossEntropyLoss(3, 2, **given),
]


@pytest.mark.parametrize("make", FACTORIES)
def test_factory_arguments_reach_every_parameter(make):
    layer = make(dtype=ex.float64, device="cpu")
    floating = [t for t in layer.state_dict().values() if t.is_floating_point()]
    assert floating
    assert all(t.dtype is ex.float64 for t in floating)


@pytest.mark.parametrize("make", FACTORIES)
def test_layers_pickle_and_deepcopy(make):
    layer = make()
    for twin in (pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer)):
        assert repr(twin) == repr(layer)
        state, other = layer.state_dict(), twin.state_dict()
        assert list(state) == list(other)
        assert all(bool((state[key] == other[key]).all()) for key in state)


# ---- errors


@pytest.mark.parametrize(
    ("layer", "shape", "expected"),
    [
        (nn.Linear(5, 2), (3, 4), r"Linear: expected input \(\.\.\., in_features=5\), got shape \(3, 4\)"),
        (nn.Conv1d(3, 2, 2), (1, 4, 5), r"Conv1d: .*in_channels=3, length.* got shape \(1, 4, 5\)"),
        (nn.Conv2d(3, 2, 2, padding=1, padding_mode="reflect"), (4, 5, 5), r"Conv2d: .*in_channels=3.*\(4, 5, 5\)"),
        (nn.Conv2d(3, 2, 2), (5,), r"Conv2d: .*in_channels=3, height, width.*\(5,\)"),
        (nn.ConvTranspose2d(3, 2, 2), (1, 4, 5, 5), r"ConvTranspose2d: .*in_channels=3.*\(1, 4, 5, 5\)"),
        (nn.BatchNorm1d(3), (2, 4), r"BatchNorm1d: .*num_features=3.*\(2, 4\)"),
        (nn.BatchNorm2d(3), (2, 3), r"BatchNorm2d: expected input \(batch, num_features=3, height, width\).*\(2, 3\)"),
        (nn.InstanceNorm2d(3, affine=True), (2, 4, 5, 5), r"InstanceNorm2d: .*num_features=3.*\(2, 4, 5, 5\)"),
        (nn.LayerNorm((2, 3)), (3, 2), r"LayerNorm: .*normalized_shape=\(2, 3\).*\(3, 2\)"),
        (nn.RMSNorm(3), (2,), r"RMSNorm: .*normalized_shape=\(3,\).*\(2,\)"),
        (nn.GroupNorm(2, 4), (2, 6), r"GroupNorm: .*num_channels=4.*\(2, 6\)"),
        (nn.PReLU(3), (2, 4), r"PReLU: .*num_parameters=3.*\(2, 4\)"),
        (nn.Softmax2d(), (2, 4), r"Softmax2d: expected .*\(2, 4\)"),
    ],
)  # fmt: skip
def test_a_shape_error_names_the_layer_what_it_expected_and_what_came(layer, shape, expected):
    with pytest.raises(ShapeError, match=expected):
        layer(ex.zeros(shape))


def test_bilinear_names_both_inputs_that_came():
    with pytest.raises(ShapeError, match=r"Bilinear: .*in1_features=2.*in2_features=3.*\(4, 3\) and \(4, 3\)"):
        nn.Bilinear(2, 3, 1)(ex.zeros(4, 3), ex.zeros(4, 3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Conv2d(3, 4, 2, groups=2),
        lambda: nn.Conv2d(2, 3, 2, groups=2),
        lambda: nn.Conv2d(2, 2, 2, groups=0),
        lambda: nn.Conv2d(2, 2, (2, 2, 2)),
        lambda: nn.Conv2d(2, 2, 2, padding="half"),
        lambda: nn.Conv2d(2, 2, 2, padding="same", stride=2),
        lambda: nn.Conv2d(2, 2, 2, padding_mode="mirror"),
        lambda: nn.ConvTranspose2d(2, 2, 2, padding_mode="reflect"),
        lambda: nn.ConvTranspose2d(2, 2, 2, padding="same"),
        lambda: nn.GroupNorm(3, 4),
        lambda: nn.Bilinear(0, 2, 2),
        lambda: nn.Dropout(1.5),
        lambda: nn.Hardtanh(1.0, -1.0),
        lambda: nn.FractionalMaxPool2d(2),
        lambda: nn.FractionalMaxPool2d(2, output_ratio=1.5),
        lambda: nn.Embedding(2, 3, _weight=ex.zeros(3, 2)),
        lambda: nn.Embedding.from_pretrained(ex.zeros(3)),
        lambda: nn.Unflatten("features", (2, 3)),
        lambda: nn.TripletMarginLoss(margin=0.0),
        lambda: nn.MultiMarginLoss(p=3),
        lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 5, [3, 2]),
        lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 5, [5]),
        lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 5, []),
    ],
)
def test_impossible_arguments_are_refused_when_the_layer_is_made(make):
    with pytest.raises(ShapeError):
        make()


def test_layers_that_have_no_place_here_say_what_to_use():
    for name, instead in (("SyncBatchNorm", "BatchNorm"), ("CrossMapLRN2d", "LocalResponseNorm")):
        assert not hasattr(nn, name)
        with pytest.raises(UnsupportedError, match=instead):
            getattr(nn, name)


# ---- embeddings


def test_embedding_takes_ints_lists_and_tensors():
    layer = nn.Embedding(5, 2)
    table = layer.weight.detach().numpy()
    np.testing.assert_array_equal(layer(3).detach().numpy(), table[3])
    np.testing.assert_array_equal(layer([1, 4]).detach().numpy(), table[[1, 4]])
    np.testing.assert_array_equal(layer([[1, 4], [0, 0]]).detach().numpy(), table[[[1, 4], [0, 0]]])
    np.testing.assert_array_equal(layer(ex.tensor([2])).detach().numpy(), table[[2]])


def test_a_row_outside_the_table_is_an_error():
    with pytest.raises(IndexRangeError):
        nn.Embedding(5, 2)(5)
    with pytest.raises(IndexRangeError, match=r"padding_idx 5 .* num_embeddings=5"):
        nn.Embedding(5, 2, padding_idx=5)


def test_sparse_gradients_are_refused_when_the_table_is_made():
    for layer in (nn.Embedding, nn.EmbeddingBag):
        with pytest.raises(UnsupportedError, match=rf"{layer.__name__}: sparse=True .* leave it out"):
            layer(5, 2, sparse=True)
        with pytest.raises(UnsupportedError, match="sparse=True"):
            layer.from_pretrained(ex.ones(5, 2), sparse=True)


def test_the_padding_row_gets_no_gradient():
    layer = nn.Embedding(4, 2, padding_idx=1)
    layer([1, 2, 2]).sum().backward()
    assert layer.weight.grad.tolist() == [[0, 0], [0, 0], [2, 2], [0, 0]]


def test_max_norm_shortens_only_the_rows_that_are_used():
    layer = nn.Embedding.from_pretrained(ex.tensor([[3.0, 4.0], [30.0, 40.0]]), max_norm=1.0)
    np.testing.assert_allclose(layer([0]).numpy(), [[0.6, 0.8]], rtol=1e-5)
    assert layer.weight[1].tolist() == [30.0, 40.0]


def test_pretrained_tables_are_frozen_unless_asked():
    table = ex.randn(3, 2)
    for kind in (nn.Embedding, nn.EmbeddingBag):
        assert not kind.from_pretrained(table).weight.requires_grad
        assert kind.from_pretrained(table, freeze=False).weight.requires_grad


# ---- running statistics


def test_batch_norm_counts_batches_and_follows_their_statistics():
    layer = nn.BatchNorm1d(1)
    layer(ex.tensor([[1.0], [3.0]]))
    assert layer.running_mean.tolist() == pytest.approx([0.2])
    assert layer.running_var.tolist() == pytest.approx([0.9 + 0.1 * 2])
    assert layer.num_batches_tracked.item() == 1
    layer.eval()(ex.tensor([[1.0], [3.0]]))
    assert layer.num_batches_tracked.item() == 1


def test_momentum_none_gives_the_mean_of_all_batches():
    layer = nn.BatchNorm1d(1, momentum=None)
    for low in (0.0, 4.0, 8.0):
        layer(ex.tensor([[low], [low + 2]]))
    assert layer.running_mean.tolist() == pytest.approx([5.0])


def test_a_batch_that_is_refused_does_not_count():
    layer = nn.BatchNorm1d(3)
    for wrong in (ex.zeros(2, 4), ex.zeros(1, 3), ex.zeros(3)):
        with pytest.raises(ShapeError):
            layer(wrong)
    assert layer.num_batches_tracked.item() == 0
    assert layer.running_mean.tolist() == [0, 0, 0]


def test_states_from_before_batches_were_counted_load():
    layer = nn.BatchNorm1d(2)
    old = {"weight": ex.ones(2), "bias": ex.ones(2), "running_mean": ex.ones(2), "running_var": ex.ones(2)}
    layer.load_state_dict(old)
    assert layer.running_mean.tolist() == [1, 1]


def test_reset_forgets_everything():
    layer = nn.BatchNorm1d(2)
    layer(ex.randn(4, 2))
    layer.reset_parameters()
    assert layer.running_mean.tolist() == [0, 0]
    assert layer.running_var.tolist() == [1, 1]
    assert layer.num_batches_tracked.item() == 0


def test_instance_norm_warns_of_a_channel_number_that_changes_nothing():
    with pytest.warns(UserWarning, match="num_features=3"):
        nn.InstanceNorm1d(3)(ex.randn(2, 4, 5))


# ---- layers that find their size


def test_lazy_layers_become_plain_at_the_first_call():
    layer = nn.LazyConv2d(4, 3, groups=2)
    assert isinstance(layer, nn.Conv2d)
    weight = layer.weight
    assert layer(ex.zeros(6, 5, 5)).shape == (4, 3, 3)
    assert type(layer) is nn.Conv2d
    assert layer.in_channels == 6
    assert layer.weight is weight
    assert weight.shape == (4, 3, 3, 3)
    assert float(weight.detach().abs().max()) <= fan_in_bound(weight)


def test_lazy_layers_keep_dtype_and_mode_set_before():
    layer = nn.LazyBatchNorm1d().double().eval()
    layer(ex.zeros(2, 3, dtype=ex.float64))
    assert layer.weight.dtype is ex.float64
    assert not layer.training
    assert layer.running_var.tolist() == [1, 1, 1]


def test_lazy_layers_take_their_size_from_a_state():
    net = nn.Sequential(nn.LazyConv1d(4, 2, groups=2), nn.LazyLinear(3))
    plain = nn.Sequential(nn.Conv1d(6, 4, 2, groups=2), nn.Linear(5, 3))
    net.load_state_dict(plain.state_dict())
    assert repr(net) == repr(plain)
    x = ex.randn(1, 6, 6)
    assert bool((net(x) == plain(x)).all())


def test_a_lazy_layer_waits_after_an_input_that_does_not_fit():
    layer = nn.LazyConv1d(4, 2, groups=2)
    for wrong in (ex.zeros(3, 5), ex.zeros(5)):
        with pytest.raises(ShapeError, match="LazyConv1d"):
            layer(wrong)
    assert layer(ex.zeros(2, 5)).shape == (4, 4)
