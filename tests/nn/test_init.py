"""nn.init: what the values are, and that draws follow the seed."""

from __future__ import annotations

import math

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ArgumentError, ShapeError
from extempo.nn import init

RANDOM = [
    init.uniform_,
    init.normal_,
    init.trunc_normal_,
    init.xavier_uniform_,
    init.xavier_normal_,
    init.kaiming_uniform_,
    init.kaiming_normal_,
    init.orthogonal_,
    lambda t, generator=None: init.sparse_(t, 0.5, generator=generator),
]


@pytest.mark.parametrize("fill", RANDOM)
def test_draws_follow_the_seed_and_the_generator_and_stay_outside_the_graph(fill):
    ex.manual_seed(3)
    p = nn.Parameter(ex.zeros(4, 6))
    assert fill(p) is p
    assert p.is_leaf
    assert p.requires_grad
    ex.manual_seed(3)
    assert ex.equal(fill(ex.zeros(4, 6)), p)
    drawn = [fill(ex.zeros(4, 6), generator=ex.Generator().manual_seed(5)) for _ in range(2)]
    assert ex.equal(*drawn)
    assert not ex.equal(drawn[0], p)


@pytest.mark.parametrize("fill", RANDOM)
def test_half_precision_can_be_filled(fill):
    for dtype in (ex.float16, ex.bfloat16, ex.float64):
        assert fill(ex.zeros(4, 6, dtype=dtype)).dtype is dtype


@pytest.mark.parametrize(("name", "shape"), [("xavier", (30, 50)), ("kaiming", (30, 50)), ("kaiming", (20, 10, 3, 3))])
def test_the_spread_is_what_the_papers_say(name, shape):
    ex.manual_seed(0)
    field = math.prod(shape[2:])
    fan_in, fan_out = shape[1] * field, shape[0] * field
    std = math.sqrt(2 / (fan_in + fan_out)) if name == "xavier" else math.sqrt(2 / fan_in)
    for kind in ("uniform", "normal"):
        w = getattr(init, f"{name}_{kind}_")(ex.empty(*shape))
        assert w.std().item() == pytest.approx(std, rel=0.08)
        assert abs(w.mean().item()) < std / 10


def test_older_names_warn_and_fill():
    for name in ("uniform", "xavier_normal", "kaiming_uniform", "orthogonal", "eye"):
        with pytest.warns(FutureWarning, match=f"init.{name}_"):
            w = getattr(init, name)(ex.zeros(3, 3))
        assert w.abs().sum() > 0


def test_kaiming_takes_mode_slope_and_nonlinearity():
    ex.manual_seed(0)
    w = ex.empty(100, 400)
    assert init.kaiming_normal_(w, mode="fan_out", nonlinearity="linear").std().item() == pytest.approx(0.1, rel=0.05)
    bound = math.sqrt(3) * math.sqrt(2 / (1 + 5)) / 20
    assert init.kaiming_uniform_(w, a=math.sqrt(5)).abs().max().item() == pytest.approx(bound, rel=0.01)
    with pytest.raises(ArgumentError, match="fan_in"):
        init.kaiming_normal_(w, mode="fan")


def test_truncated_normals_stay_inside_also_far_out_in_the_tail():
    ex.manual_seed(0)
    w = init.trunc_normal_(ex.empty(20_000))
    assert w.abs().max().item() <= 2
    assert w.std().item() == pytest.approx(0.8796, rel=0.02)
    tail = init.trunc_normal_(ex.empty(20_000), mean=1.0, std=2.0, a=11.0, b=13.0)  # 5 to 6 standard deviations above
    assert 11 <= tail.min().item() < tail.max().item() <= 13
    assert tail.mean().item() == pytest.approx(1 + 2 * 5.1842, rel=0.002)
    below = init.trunc_normal_(ex.empty(20_000), mean=1.0, std=2.0, a=-11.0, b=-9.0)
    assert below.mean().item() == pytest.approx(1 - 2 * 5.1842, rel=0.002)
    for wrong in ({"std": 0.0}, {"a": 1.0, "b": 1.0}):
        with pytest.raises(ArgumentError):
            init.trunc_normal_(ex.empty(2), **wrong)


@pytest.mark.parametrize("shape", [(3, 7), (7, 3), (4, 4), (2, 3, 5)])
def test_orthogonal_rows_or_columns(shape):
    w = init.orthogonal_(ex.empty(*shape), gain=2.0).flatten(1)
    product = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
    assert ex.allclose(product, 4 * ex.eye(len(product)), atol=1e-5)


def test_dirac_passes_channels_on():
    for groups in (1, 2):
        w = init.dirac_(ex.empty(4, 4 // groups, 3, 3), groups)
        x = ex.rand(1, 4, 5, 5)
        assert ex.allclose(ex.nn.functional.conv2d(x, w, padding=1, groups=groups), x)
    with pytest.raises(ShapeError):
        init.dirac_(ex.empty(3, 2, 3), 2)
    with pytest.raises(ShapeError):
        init.dirac_(ex.empty(3, 2))


def test_sparse_columns_have_their_share_of_zeros():
    ex.manual_seed(0)
    w = init.sparse_(ex.empty(10, 6), 0.25, std=1.0)
    assert (w == 0).sum(0).tolist() == [3] * 6


def test_shapes_without_fans_are_refused():
    for fill in (init.xavier_uniform_, init.kaiming_normal_, init.orthogonal_, init.eye_):
        with pytest.raises(ShapeError):
            fill(ex.empty(3))


@pytest.mark.parametrize("fill", [init.xavier_normal_, init.kaiming_uniform_, init.orthogonal_, init.uniform_])
def test_empty_tensors_are_left_alone(fill):
    assert fill(ex.empty(0, 3)).shape == (0, 3)


def test_gains_equal_pytorch():
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    for name in ("linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"):
        assert init.calculate_gain(name) == torch.nn.init.calculate_gain(name)
    assert init.calculate_gain("leaky_relu", 0.3) == torch.nn.init.calculate_gain("leaky_relu", 0.3)
    with pytest.raises(ValueError, match="expected one of"):
        init.calculate_gain("gelu")
    with pytest.raises(TypeError, match="slope"):
        init.calculate_gain("leaky_relu", True)
    for shape, groups in (((4, 2, 3), 2), ((3, 5, 2, 4), 1)):
        ours = init.dirac_(ex.empty(*shape), groups)
        assert ours.tolist() == torch.nn.init.dirac_(torch.empty(*shape), groups).tolist()
    assert init.eye_(ex.empty(2, 3)).tolist() == torch.nn.init.eye_(torch.empty(2, 3)).tolist()
    assert set(init.__all__) <= set(dir(torch.nn.init))
