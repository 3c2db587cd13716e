"""RNN, LSTM, GRU and their cells: PyTorch's numbers, packed and empty sequences, errors that name sizes."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ArgumentError, DtypeError, ShapeError
from extempo.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

LAYERS = [nn.RNN, nn.LSTM, nn.GRU]
CELLS = [nn.RNNCell, nn.LSTMCell, nn.GRUCell]


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def tensor(*shape: int, seed: int = 0) -> ex.Tensor:
    return ex.tensor(draw(*shape, seed=seed))


def flat(result: object) -> list:
    """Every tensor of a nested result; the data of a packed one."""
    if hasattr(result, "batch_sizes"):
        return [result.data]
    return [t for part in result for t in flat(part)] if isinstance(result, (tuple, list)) else [result]


def assert_same(ours: object, theirs: object) -> None:
    left, right = flat(ours), flat(theirs)
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-8, atol=1e-11)


def state_for(module: nn.RNNBase, n_samples: int | None, seed: int = 5) -> object:
    """A random state as arrays: (h, c) for an LSTM."""
    lead = (module.num_layers * (1 + module.bidirectional), *(() if n_samples is None else (n_samples,)))
    h = draw(*lead, module.proj_size or module.hidden_size, seed=seed)
    return (h, draw(*lead, module.hidden_size, seed=seed + 1)) if module.mode == "LSTM" else h


# ---- against PyTorch

OPTIONS = [
    {},
    {"bias": False},
    {"num_layers": 3},
    {"bidirectional": True},
    {"batch_first": True},
    {"num_layers": 2, "bidirectional": True, "batch_first": True, "bias": False},
    {"proj_size": 2},
    {"proj_size": 3, "num_layers": 2, "bidirectional": True, "bias": False},
    {"nonlinearity": "relu", "num_layers": 2},
]
CASES = [
    pytest.param(layer, options, id=f"{layer.__name__}-{'-'.join(map(str, options.items()))}")
    for layer in LAYERS
    for options in OPTIONS
    if ("proj_size" not in options or layer is nn.LSTM) and ("nonlinearity" not in options or layer is nn.RNN)
]


class Twins:
    """One module of ours and PyTorch's with the same weights, and calls of both with the same arrays."""

    def __init__(self, layer: type, *sizes: int, **options: object) -> None:
        self.torch = pytest.importorskip("torch", reason="compares with PyTorch")
        self.torch.manual_seed(0)
        self.theirs = getattr(self.torch.nn, layer.__name__)(*sizes, **options, dtype=self.torch.float64)
        self.ours = layer(*sizes, **options, dtype=ex.float64)
        assert list(self.ours.state_dict()) == list(self.theirs.state_dict())
        self.ours.load_state_dict(self.theirs.state_dict())

    def compare(self, call, *arrays: np.ndarray) -> None:
        """The results of `call(library, module, *tensors)`, and the gradients of all that went in."""
        gradients = []
        results = []
        for library, module in ((ex, self.ours), (self.torch, self.theirs)):
            inputs = [library.tensor(array, requires_grad=True) for array in arrays]
            results.append(flat(call(library, module, *inputs)))
            # Each element has a weight of its own, so that none can stand for another.
            weights = [library.tensor(np.cos(np.arange(r.numel())).reshape(tuple(r.shape))) for r in results[-1]]
            sum((r * w).sum() for r, w in zip(results[-1], weights, strict=True)).backward()
            gradients.append([x.grad for x in [*inputs, *module.parameters()]])
        assert_same(*results)
        assert_same(*gradients)


@pytest.mark.parametrize(("layer", "options"), CASES)
def test_layers_give_pytorchs_numbers_and_gradients(layer, options):
    twins = Twins(layer, 3, 4, **options)
    twins.compare(lambda _, module, x: module(x), draw(5, 2, 3))
    n_samples = 5 if "batch_first" in options else 2
    h, *c = flat(state_for(twins.ours, n_samples))
    twins.compare(lambda _, module, x, *hx: module(x, hx if len(hx) == 2 else hx[0]), draw(5, 2, 3), h, *c)


@pytest.mark.parametrize(("layer", "options"), CASES)
def test_an_unbatched_sequence_gives_pytorchs_numbers(layer, options):
    twins = Twins(layer, 3, 4, **options)
    twins.compare(lambda _, module, x: module(x), draw(5, 3))
    h, *c = flat(state_for(twins.ours, None))
    twins.compare(lambda _, module, x, *hx: module(x, hx if len(hx) == 2 else hx[0]), draw(5, 3), h, *c)


@pytest.mark.parametrize(("layer", "options"), CASES)
@pytest.mark.parametrize("lengths", [[6, 3, 3, 1], [2, 6, 1, 4], [3, 3]])
def test_packed_sequences_give_pytorchs_numbers(layer, options, lengths):
    twins = Twins(layer, 3, 4, **options)

    def call(library, module, x, *hx):
        packed = library.nn.utils.rnn.pack_padded_sequence(x, library.tensor(lengths), enforce_sorted=False)
        return module(packed, *([] if not hx else [hx if len(hx) == 2 else hx[0]]))

    x = draw(max(lengths), len(lengths), 3)
    twins.compare(call, x)
    h, *c = flat(state_for(twins.ours, len(lengths)))
    twins.compare(call, x, h, *c)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("lead", [(), (2,), (0,)])
def test_cells_give_pytorchs_numbers_and_gradients(cell, bias, lead):
    twins = Twins(cell, 3, 4, bias=bias)
    twins.compare(lambda _, module, x: module(x), draw(*lead, 3))
    states = [draw(*lead, 4, seed=n) for n in range(2 if cell is nn.LSTMCell else 1)]
    twins.compare(lambda _, module, x, *hx: module(x, hx if len(hx) == 2 else hx[0]), draw(*lead, 3), *states)


def test_a_relu_cell_gives_pytorchs_numbers():
    Twins(nn.RNNCell, 3, 4, nonlinearity="relu").compare(lambda _, m, x, h: m(x, h), draw(2, 3), draw(2, 4))


@pytest.mark.parametrize("layer", LAYERS)
def test_an_empty_batch_gives_empty_results_as_in_pytorch(layer):
    twins = Twins(layer, 3, 4, bidirectional=True, num_layers=2)
    twins.compare(lambda _, module, x: module(x), draw(5, 0, 3))


@pytest.mark.parametrize("layer", LAYERS)
def test_twenty_steps_of_descent_follow_pytorch(layer):
    twins = Twins(layer, 3, 4, num_layers=2)
    losses = []
    for library, module in ((ex, twins.ours), (twins.torch, twins.theirs)):
        x, wanted = library.tensor(draw(6, 2, 3)), library.tensor(draw(6, 2, 4, seed=1) * 0.1)
        losses.append([])
        for _ in range(20):
            loss = ((module(x)[0] - wanted) ** 2).mean()
            losses[-1].append(loss.item())
            module.zero_grad()
            loss.backward()
            with library.no_grad():
                for parameter in module.parameters():
                    parameter -= 0.5 * parameter.grad
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)
    assert losses[0][-1] < losses[0][0]


# ---- what must hold without PyTorch


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_is_its_cell_step_by_step(layer):
    module = layer(3, 4, dtype=ex.float64)
    cell = {nn.RNN: nn.RNNCell, nn.LSTM: nn.LSTMCell, nn.GRU: nn.GRUCell}[layer](3, 4, dtype=ex.float64)
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in module.state_dict().items()})
    x = tensor(5, 2, 3)
    output, final = module(x)
    state = None
    for t in range(5):
        state = cell(x[t], state)
        assert_same(output[t], flat(state)[0])
    assert_same([s.squeeze(0) for s in flat(final)], state)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_packed_batch_equals_each_sequence_alone(layer):
    module = layer(3, 4, num_layers=2, bidirectional=True, dtype=ex.float64)
    lengths = [2, 5, 1]
    x = tensor(5, 3, 3)
    hx = state_for(module, 3)
    h, *c = [ex.tensor(s) for s in flat(hx)]
    packed = pack_padded_sequence(x, ex.tensor(lengths), enforce_sorted=False)
    output, final = module(packed, (h, *c) if c else h)
    assert isinstance(output, PackedSequence)
    padded, found = pad_packed_sequence(output)
    assert found.tolist() == lengths
    for sample, length in enumerate(lengths):
        alone = (h[:, sample], c[0][:, sample]) if c else h[:, sample]
        expected, expected_final = module(x[:length, sample], alone)
        assert_same(padded[:length, sample], expected)
        assert_same([s[:, sample] for s in flat(final)], expected_final)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_sequence_of_length_zero_returns_its_state(layer):
    module = layer(3, 4, num_layers=2, bidirectional=True)
    output, final = module(ex.zeros(0, 2, 3))
    assert output.shape == (0, 2, 8)
    assert all(s.shape == (4, 2, 4) and not s.any() for s in flat(final))
    hx = ex.ones(4, 4)
    output, final = module(ex.zeros(0, 3), (hx, hx) if layer is nn.LSTM else hx)
    assert output.shape == (0, 8)
    assert all(ex.equal(s, hx) for s in flat(final))


@pytest.mark.parametrize("layer", LAYERS)
def test_gradients_agree_with_differences(layer):
    options = {"proj_size": 1} if layer is nn.LSTM else {}
    module = layer(2, 3, bidirectional=True, dtype=ex.float64, **options)
    x = ex.tensor(draw(3, 2, 2), requires_grad=True)
    assert ex.autograd.gradcheck(lambda *_: tuple(flat(module(x))), (x, *module.parameters()))


@pytest.mark.parametrize("layer", LAYERS)
def test_second_derivatives_are_there(layer):
    module = layer(2, 2, dtype=ex.float64)
    x = ex.tensor(draw(2, 1, 2), requires_grad=True)
    assert ex.autograd.gradgradcheck(lambda *_: module(x)[0], (x, *module.parameters()))


@pytest.mark.parametrize("layer", LAYERS)
def test_a_gradient_is_the_same_whether_it_will_be_differentiated_or_not(layer):
    module = layer(3, 4, bidirectional=True, dtype=ex.float64)
    x = ex.tensor(draw(5, 2, 3), requires_grad=True)
    loss = module(x)[0].square().sum()
    leaves = [x, *module.parameters()]
    plain = ex.autograd.grad(loss, leaves, retain_graph=True)
    assert_same(plain, ex.autograd.grad(loss, leaves, create_graph=True))


@pytest.mark.parametrize("layer", LAYERS)
def test_compiled_layers_give_the_same_bits_with_fresh_lengths_at_every_call(layer):
    def train(wrap):
        ex.manual_seed(0)
        module = layer(3, 8, num_layers=2, bidirectional=True)

        def step(rows, sizes, order):
            output, final = module(PackedSequence(rows, sizes, order))
            loss = output.data.square().sum() + flat(final)[0].sum()
            loss.backward()
            return loss

        run, seen = wrap(step), []
        for k, lengths in enumerate([[4, 2, 3], [5, 5], [4, 2, 3], [1, 4, 4], [4, 2, 3], [7]]):
            x = ex.tensor(draw(max(lengths), len(lengths), 3, seed=k), dtype=ex.float32)
            packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
            seen.append(run(*packed[:3]).item())
        return seen, [p.grad.numpy() for p in module.parameters()]

    eager, compiled = train(lambda fn: fn), train(ex.compile)
    assert eager[0] == compiled[0]
    for a, b in zip(eager[1], compiled[1], strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("layer", LAYERS)
def test_samples_of_any_length_in_a_batch_equal_each_alone(layer):
    module = layer(3, 4, dtype=ex.float64)
    sequences = [tensor(n, 3, seed=n) for n in (4, 2, 4, 1)]
    together = ex.batch(lambda x: module(x)[0][-1])(sequences)
    for x, last in zip(sequences, together, strict=True):
        assert_same(last, module(x)[0][-1])


def test_outputs_of_an_lstm_may_be_overwritten_before_backward():
    module = nn.LSTM(3, 4)
    module(ex.ones(5, 2, 3))[0].relu_().sum().backward()  # the gradient reads gates and states, not outputs
    assert module.weight_hh_l0.grad.any()


def test_dropout_stands_between_layers_and_only_in_training():
    ex.manual_seed(0)
    module = nn.GRU(3, 4, num_layers=2, dropout=0.5)
    x = ex.randn(6, 2, 3)
    assert not ex.equal(module(x)[0], module(x)[0])
    module.eval()
    assert ex.equal(module(x)[0], module(x)[0])
    dropped = nn.GRU(3, 4, num_layers=2, dropout=1.0)
    first = dropped(x)[0]
    second = dropped(ex.randn(6, 2, 3))[0]
    assert ex.equal(first, second)  # nothing of the input passes


def test_a_useless_dropout_is_mentioned():
    with pytest.warns(UserWarning, match=r"dropout=0.5 has no effect with one layer") as record:
        nn.LSTM(3, 4, dropout=0.5)
    assert record[0].filename == __file__


def test_parameters_have_pytorchs_names_and_start_within_the_bound():
    module = nn.LSTM(3, 4, num_layers=2, bidirectional=True, proj_size=2)
    ends = ["_l0", "_l0_reverse", "_l1", "_l1_reverse"]
    kinds = ["weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"]
    assert list(module.state_dict()) == [kind + end for end in ends for kind in kinds]
    assert [tuple(w.shape) for w in module.all_weights[2]] == [(16, 4), (16, 2), (16,), (16,), (2, 4)]
    assert all(0.2 < p.abs().max().item() <= 0.5 for p in module.parameters())
    module.flatten_parameters()


def test_a_parameter_that_is_replaced_takes_effect():
    module = nn.RNN(2, 2, bias=False)
    module.weight_ih_l0 = nn.Parameter(ex.zeros(2, 2))
    assert not module(ex.ones(3, 2))[0].any()


@pytest.mark.parametrize("layer", [*LAYERS, *CELLS])
def test_modules_copy_and_pickle(layer):
    module = layer(3, 4)
    x = ex.ones(2, 3)
    expected = flat(module(x))
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert all(ex.equal(a, b) for a, b in zip(flat(twin(x)), expected, strict=True))


def test_reprs_show_what_is_not_the_default():
    assert repr(nn.LSTM(3, 4)) == "LSTM(3, 4)"
    assert repr(nn.GRU(3, 4, num_layers=2, batch_first=True)) == "GRU(3, 4, num_layers=2, batch_first=True)"
    assert repr(nn.RNNCell(3, 4, nonlinearity="relu")) == "RNNCell(3, 4, nonlinearity=relu)"
    assert repr(nn.GRUCell(3, 4, bias=False)) == "GRUCell(3, 4, bias=False)"


def test_a_vmapped_cell_or_layer_equals_a_batch():
    cell = nn.LSTMCell(3, 4, dtype=ex.float64)
    x = tensor(5, 3)
    assert_same(ex.func.vmap(cell)(x), cell(x))
    layer = nn.GRU(3, 4, batch_first=True, dtype=ex.float64)
    sequences = tensor(2, 5, 3)
    assert_same(ex.func.vmap(lambda one: layer(one)[0])(sequences), layer(sequences)[0])


def test_a_functional_call_uses_the_parameters_given():
    module = nn.LSTM(3, 4, num_layers=2)
    zeros = {name: ex.zeros_like(parameter) for name, parameter in module.named_parameters()}
    assert not ex.func.functional_call(module, zeros, (ex.ones(5, 3),))[0].any()
    assert module(ex.ones(5, 3))[0].any()


@pytest.mark.parametrize("dtype", [ex.float16, ex.bfloat16])
@pytest.mark.parametrize("layer", LAYERS)
def test_half_precision_stays_half_and_close(layer, dtype):
    module = layer(3, 4)
    x = ex.tensor(draw(5, 2, 3), dtype=ex.float32)
    expected = module(x)[0]
    output = module.to(dtype)(x.to(dtype))[0]
    assert output.dtype is dtype
    assert (output.float() - expected).abs().max().item() < 0.05


# ---- errors


def test_errors_of_layers_name_the_sizes():
    lstm, gru = nn.LSTM(3, 4, num_layers=2), nn.GRU(3, 4, batch_first=True)
    with pytest.raises(ShapeError, match=r"LSTM: expected input .*input_size=3, got shape \(5, 2, 4\)"):
        lstm(ex.zeros(5, 2, 4))
    with pytest.raises(ShapeError, match=r"got shape \(3,\)"):
        gru(ex.zeros(3))
    with pytest.raises(ShapeError, match=r"GRU: hx must be \(1, 5, 4\), .* got \(1, 2, 4\)"):
        gru(ex.zeros(5, 2, 3), ex.zeros(1, 2, 4))
    with pytest.raises(ShapeError, match=r"LSTM: c must be \(2, 4\), .* got \(1, 4\)"):
        lstm(ex.zeros(5, 3), (ex.zeros(2, 4), ex.zeros(1, 4)))
    with pytest.raises(DtypeError, match=r"LSTM: the state must be a pair of tensors \(h, c\), got Tensor"):
        lstm(ex.zeros(5, 3), ex.zeros(2, 4))
    with pytest.raises(DtypeError, match="float64"):
        gru(ex.zeros(5, 2, 3, dtype=ex.float64))


def test_sizes_of_steps_that_do_not_fit_the_rows_are_refused():
    rows = ex.zeros(5, 3)
    for sizes in ([2, 3], [3, 1], [6, -1], [3, 3]):
        for run in (nn.GRU(3, 4), ex.compile(nn.GRU(3, 4))):
            with pytest.raises(ShapeError, match=r"gru_sequence: the sizes of steps .* add up to the 5 rows, got \["):
                run(PackedSequence(rows, ex.tensor(sizes)))[0].data.sum().item()


def test_errors_of_cells_name_the_sizes():
    cell = nn.LSTMCell(3, 4)
    with pytest.raises(ShapeError, match=r"LSTMCell: expected input \(batch, input_size=3\) .* got shape \(2, 5\)"):
        cell(ex.zeros(2, 5))
    with pytest.raises(ShapeError, match=r"LSTMCell: c must be \(2, 4\) .* hidden_size=4, got \(3, 4\)"):
        cell(ex.zeros(2, 3), (ex.zeros(2, 4), ex.zeros(3, 4)))
    with pytest.raises(DtypeError, match=r"pair of tensors \(h, c\), got 3 things"):
        cell(ex.zeros(2, 3), (ex.zeros(2, 4),) * 3)
    with pytest.raises(ShapeError, match=r"GRUCell: hx must be \(4,\) for an input \(3,\)"):
        nn.GRUCell(3, 4)(ex.zeros(3), ex.zeros(2, 4))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_size": 0}, "input_size must be at least 1, got 0"),
        ({"hidden_size": -1}, "hidden_size must be at least 1, got -1"),
        ({"num_layers": 0}, "num_layers must be at least 1, got 0"),
        ({"dropout": 1.5, "num_layers": 2}, "dropout is a probability between 0 and 1, got 1.5"),
        ({"proj_size": 4}, "proj_size=4 with hidden_size=4"),
        ({"bias": 1}, "bias must be bool, got 1"),
        ({"input_size": 3.0}, "input_size must be int, got 3.0"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises((ShapeError, ArgumentError, DtypeError), match=message):
        nn.LSTM(**{"input_size": 3, "hidden_size": 4, **options})


def test_an_unknown_nonlinearity_is_refused():
    for layer in (nn.RNN, nn.RNNCell):
        with pytest.raises(ArgumentError, match="nonlinearity must be 'tanh' or 'relu', got 'elu'"):
            layer(3, 4, nonlinearity="elu")
