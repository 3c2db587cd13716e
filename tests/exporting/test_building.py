"""ex.program: models of all kinds as programs, at sizes from 0 on, with their weights by name, and what is refused."""

from __future__ import annotations

import threading

import pytest

import extempo as ex
import extempo.nn.functional as F
from extempo import nn
from extempo.errors import ExportError

r = ex.randn


def attention(x):
    b, t, d = x.shape
    y = x.view(b, t, 2, d // 2).transpose(1, 2)
    scores = (y @ y.transpose(-1, -2)) / d**0.5
    scores = scores.masked_fill(ex.tril(ex.ones(t, t)) == 0, float("-inf")).softmax(-1)
    return (scores @ y).transpose(1, 2).reshape(b, t, -1) + ex.arange(t).unsqueeze(-1)


def pieces(x):
    n = x.shape[1]
    return x[:, 1:] - x[:, :-1], x[:, : n // 2], x.flatten(), ex.cat([x, x], 1), x.mean(1), n, x / n, x[-3:]


def in_place(x):
    y = ex.zeros(x.shape[0], 4)
    y[:, 0] = x.sum(1)
    y[:, 1:3] += 1
    last = y[:, 3]
    last.add_(5)
    y.mul_(2)
    return y, last


def control_flow(x):
    y = ex.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))
    y, n = ex.while_loop(lambda y, n: (y.abs().sum() < 100) & (n < 9), lambda y, n: (y * 2, n + 1), (y, ex.tensor(0)))
    c, ys = ex.scan(lambda c, x: (c + x, (c * x,)), ex.zeros(x.shape[1]), y)
    return c, ys, n, ex.map(lambda row: row.sum(), y)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 6)
        self.rnn = nn.LSTM(6, 5, batch_first=True, bidirectional=True)
        self.head = nn.Linear(10, 3)

    def forward(self, tokens):
        return self.head(self.rnn(self.table(tokens))[0]).log_softmax(-1)


MODELS = {
    "mlp": (nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)), (r(4, 8),), {"input": {0: "b"}}),
    "conv": (
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        (r(3, 1, 12, 12),),
        {"input": {0: "b", 2: "h"}},
    ),
    "lstm": (nn.LSTM(8, 6), (r(5, 3, 8),), {"input": {0: "t", 1: "b"}}),
    "gru": (nn.GRU(8, 6, 2, bidirectional=True), (r(5, 3, 8),), {"input": {0: "t", 1: "b"}}),
    "encoder": (
        nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2),
        (r(3, 5, 16),),
        {"src": {0: "b", 1: "t"}},
    ),
    "tagger": (Tagger(), (ex.tensor([[1, 2, 3], [4, 5, 6]]),), {"tokens": {0: "b", 1: "t"}}),
    "attention": (attention, (r(3, 5, 8),), {"x": {0: "b", 1: "t"}}),
    "pieces": (pieces, (r(4, 6),), {"x": {0: "b", 1: "t"}}),
    "in_place": (in_place, (r(3, 5),), {"x": {0: "b"}}),
    "control_flow": (control_flow, (r(3, 5),), {"x": {0: "b", 1: "d"}}),
    "eye": (lambda x: x @ ex.eye(x.shape[1]), (r(3, 5),), {"x": {0: "n", 1: "m"}}),
    "one_hot": (lambda i: F.one_hot(i, 7).float().mean(0), (ex.tensor([1, 2, 6]),), {"i": {0: "n"}}),
    "loss": (F.cross_entropy, (r(3, 5), ex.tensor([1, 2, 3])), {"input": {0: "b"}, "target": {0: "b"}}),
}


@pytest.mark.parametrize("name", MODELS)
def test_programs_give_what_their_models_give_at_every_size(name):
    from extempo.func.tree import leaves

    model, args, dynamic = MODELS[name]
    if isinstance(model, nn.Module):
        model.eval()
    program = ex.program(model, args, dynamic=dynamic)
    for size in (1, 2, 7, 13):
        resized = []
        for arg, (_, dims) in zip(args, dynamic.items(), strict=True):
            for d in dims:
                arg = arg.index_select(d, ex.arange(size) % arg.shape[d])
            resized.append(arg)
        try:
            expected = model(*resized)
        except ex.errors.ExtempoError:
            with pytest.raises(ex.errors.ExtempoError):
                program(*resized)
            continue
        with ex.no_grad():
            made = program(*resized)
        for ours, theirs in zip(leaves(made), leaves(expected), strict=True):
            if isinstance(theirs, ex.Tensor):
                assert ours.shape == theirs.shape
                assert not ours.requires_grad
                assert ex.allclose(ours, theirs.detach(), atol=1e-5)
            else:
                assert ours == theirs


def test_weights_have_the_names_of_the_model():
    model = Tagger().eval()
    program = ex.program(model, ex.tensor([[1, 2]]), dynamic={"tokens": {1: "t"}})
    assert set(program.weights) >= {"table.weight", "rnn.weight_ih_l0", "rnn.weight_hh_l0_reverse", "head.bias"}
    assert program.weights["head.bias"] is model.head.bias
    assert program.trainable == set(dict(model.named_parameters()))


def test_a_function_may_read_modules_and_constants():
    layer, shift = nn.Linear(3, 2).eval(), ex.ones(2)
    program = ex.program(lambda x: layer(x) + shift * 2, ex.ones(4, 3), dynamic={"x": {0: "n"}})
    assert set(program.weights) == {"layer.weight", "layer.bias", "constant_0"}
    assert ex.allclose(program(ex.ones(1, 3)), layer(ex.ones(1, 3)) + 2)


def test_constants_have_names_that_no_weight_has():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.constant_0 = nn.Parameter(ex.tensor([3.0]))

        def forward(self, x):
            return x * self.constant_0 + ex.tensor([5.0])

    program = ex.program(Scaled().eval(), ex.ones(2))
    assert sorted(program.weights) == ["constant_0", "constant_1"]
    assert program(ex.ones(2)).tolist() == [8.0, 8.0]


def test_a_model_in_training_mode_is_exported_only_on_demand():
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    with pytest.raises(ExportError, match=r"call model.eval\(\) first, or say training=True"):
        ex.program(model, ex.ones(2, 3))
    program = ex.program(model, ex.ones(2, 3), training=True)
    ex.manual_seed(3)
    first, second = program(ex.ones(2, 3)), program(ex.ones(2, 3))
    ex.manual_seed(3)
    assert ex.equal(first, model(ex.ones(2, 3)))
    assert not ex.equal(first, second)


def test_buffers_that_forward_writes_become_inputs_and_outputs():
    model = nn.BatchNorm1d(3)
    program = ex.program(model, r(4, 3), training=True, dynamic={"input": {0: "n"}})
    assert set(program.state) == {"running_mean", "running_var", "num_batches_tracked"}
    assert model.num_batches_tracked.item() == 0
    x = r(6, 3)
    y, state = program(x)
    y, state = program(x, **state)
    assert state["num_batches_tracked"].item() == 2
    model(x)
    assert ex.allclose(y, model(x))
    assert ex.allclose(state["running_mean"], model.running_mean)


class Cached(nn.Module):
    def __init__(self, registered):
        super().__init__()
        if registered:
            self.register_buffer("total", ex.zeros(2))
        else:
            self.total = ex.zeros(2)

    def forward(self, x):
        self.total = self.total + x
        return self.total * 2


def test_a_buffer_that_is_set_anew_is_a_state_and_a_plain_attribute_is_refused():
    model = Cached(True).eval()
    program = ex.program(model, ex.ones(2))
    y, state = program(ex.ones(2))
    y, state = program(ex.ones(2), **state)
    assert y.tolist() == [4.0, 4.0]
    assert model.total.tolist() == [0.0, 0.0]
    plain = Cached(False).eval()
    with pytest.raises(ExportError, match="forward sets the attribute 'total'"):
        ex.program(plain, ex.ones(2))
    assert plain.total.tolist() == [0.0, 0.0]


def test_values_and_sizes_that_the_code_fixes_are_errors_with_their_line():
    def reads(x):
        return x * x.sum().tolist()

    def repeats(x):
        return [x[0]] * x.shape[0]

    with pytest.raises(ExportError, match=r"test_building.py:\d+: a value of f32\[\] is read as a number"):
        ex.program(reads, ex.ones(3))
    with pytest.raises(ExportError, match=r"test_building.py:\d+: the size n is needed as a number"):
        ex.program(repeats, ex.ones(3), dynamic={"x": {0: "n"}})


def test_a_decision_by_size_is_a_guard_of_the_program():
    def fn(x):
        return x * 2 if x.shape[0] > 4 else x

    program = ex.program(fn, ex.ones(6), dynamic={"x": {0: "n"}})
    assert program(ex.ones(5)).tolist() == [2.0] * 5
    with pytest.raises(ex.errors.ShapeError, match=r"holds for sizes with n > 4, .*test_building.py:\d+; got n = 3"):
        program(ex.ones(3))


def test_static_arguments_are_part_of_the_program():
    def fn(x, k):
        return x * int(k)

    program = ex.program(fn, (ex.ones(2), ex.tensor(3)), static=["k"])
    assert [i.name for i in program.inputs] == ["x"]
    assert program(ex.ones(2)).tolist() == [3.0, 3.0]
    with pytest.raises(ExportError, match="static names 'z'"):
        ex.program(fn, (ex.ones(2), ex.tensor(3)), static=["z"])


def test_writes_inside_branches_to_what_is_outside_are_refused():
    def fn(x):
        y = x * 2

        def branch():
            y.add_(1)
            return y

        return ex.cond(x.sum() > 0, branch, lambda: y)

    with pytest.raises(ExportError, match=r"add_ writes in place, inside a branch or loop"):
        ex.program(fn, ex.ones(3))


def test_branches_that_give_different_types_are_refused():
    with pytest.raises(ExportError, match=r"one branch gives f32\[3\] and the other f32\[\]"):
        ex.program(lambda x: ex.cond(x.sum() > 0, lambda: x, lambda: x.sum()), ex.ones(3))
    with pytest.raises(ExportError, match="different structures"):
        ex.program(lambda x: ex.cond(x.sum() > 0, lambda: x, lambda: (x, x)), ex.ones(3))


def test_threads_share_a_program():
    model = MODELS["tagger"][0].eval()
    program = ex.program(model, ex.tensor([[1, 2]]), dynamic={"tokens": {0: "b", 1: "t"}})
    xs = [ex.randint(0, 10, (1 + i % 3, 1 + i % 5)) for i in range(24)]
    results = [None] * len(xs)

    def work(start):
        for i in range(start, len(xs), 4):
            results[i] = program(xs[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for x, y in zip(xs, results, strict=True):
        assert ex.allclose(y, model(x), atol=1e-5)


def test_a_tensor_of_zeros_of_an_open_size_decides_nothing_by_it():
    program = ex.program(lambda x: ex.zeros(x.shape[0], 1) + x, ex.ones(3, 2), dynamic={"x": {0: "rows"}})
    assert not program.guards
    assert program(ex.ones(1, 2)).shape == (1, 2)


def test_python_errors_of_a_model_on_its_example_say_the_line_and_what_to_do():
    def last(rows):
        return list(rows)[-1]

    with pytest.raises(ex.errors.ExportError, match=r"test_building.py:\d+: IndexError: .* take another example"):
        ex.program(last, ex.zeros(0, 3))


def test_a_list_of_numbers_cannot_be_dynamic_and_the_error_says_what_can():
    from extempo.cli.demo_task import Classifier

    with pytest.raises(ex.errors.ExportError, match=r"arguments are none; .* ex.tensor"):
        ex.program(Classifier().eval(), [1, 2, 3], dynamic={"words": {0: "n"}})


@pytest.mark.parametrize("words", [[4], [1, 2, 3, 10, 9, 1, 2, 3, 4]])
def test_the_model_of_the_demo_is_exported_as_it_is(words, tmp_path):
    from extempo.cli.demo_task import Classifier

    model = Classifier().eval()
    program = ex.program(model, ex.tensor([1, 2, 3]), dynamic={"words": {0: "n"}})
    assert [str(guard) for guard in program.guards] == ["n >= 1"]
    program.save(str(tmp_path / "m.extempo"))
    read = ex.load_program(str(tmp_path / "m.extempo"))
    assert ex.equal(read(ex.tensor(words)), model(words))
    with pytest.raises(ex.errors.ShapeError, match=r"sizes with n >= 1, .* got n = 0"):
        read(ex.tensor([], dtype=ex.int64))


def test_what_cannot_be_called_is_no_model():
    with pytest.raises(ExportError, match="expected a function or a module, got int"):
        ex.program(3, ex.ones(2))
