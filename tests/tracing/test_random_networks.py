"""Random networks, trained for some steps by a random optimizer: the same losses, gradients and parameters."""

from __future__ import annotations

import random

import pytest

import extempo as ex
from extempo import nn, optim
from extempo.nn import functional as F

from .agreement import agree, draw, whole

N_NETWORKS = 30
WIDTH = 6


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


class Gate(nn.Module):
    """Branches on a value."""

    def __init__(self):
        super().__init__()
        self.low, self.high = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.high(x) if x.mean().item() > 0 else self.low(x)


class Recurrent(nn.Module):
    """A Python loop over the columns."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x):
        h = ex.zeros(len(x), WIDTH)
        state = (h, h) if isinstance(self.cell, nn.LSTMCell) else h
        for column in x.unbind(1)[:4]:
            state = self.cell(column[:, None], state)
        return state[0] if isinstance(state, tuple) else state


class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x[None], x[None], x[None], need_weights=False)[0][0]


class Convolve(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 2, 3, padding=1)

    def forward(self, x):
        return F.avg_pool1d(self.conv(x[:, None]).flatten(1), 2)


LAYERS = [
    lambda: nn.Linear(WIDTH, WIDTH),
    lambda: nn.Linear(WIDTH, WIDTH, bias=False),
    nn.ReLU,
    nn.Tanh,
    nn.GELU,
    nn.SiLU,
    nn.Softplus,
    lambda: nn.PReLU(WIDTH),
    lambda: nn.LeakyReLU(0.2),
    lambda: nn.LayerNorm(WIDTH),
    lambda: nn.BatchNorm1d(WIDTH),
    lambda: nn.GroupNorm(2, WIDTH),
    lambda: nn.RMSNorm(WIDTH),
    lambda: nn.Dropout(0.2),
    lambda: nn.Softmax(1),
    Gate,
    Attend,
    Convolve,
    lambda: Recurrent(nn.LSTMCell(1, WIDTH)),
    lambda: Recurrent(nn.GRUCell(1, WIDTH)),
    lambda: Residual(nn.Sequential(nn.Linear(WIDTH, 9), nn.GELU(), nn.Linear(9, WIDTH))),
    lambda: nn.Bilinear(WIDTH, WIDTH, WIDTH),
]
OPTIMIZERS = [
    lambda p: optim.SGD(p, lr=0.05),
    lambda p: optim.SGD(p, lr=0.05, momentum=0.9),
    lambda p: optim.Adam(p, lr=0.02),
    lambda p: optim.AdamW(p, lr=0.02),
    lambda p: optim.RMSprop(p, lr=0.01),
]
LOSSES = [
    F.cross_entropy,
    lambda y, labels: F.mse_loss(y, F.one_hot(labels, WIDTH).float()),
    lambda y, labels: F.nll_loss(y.log_softmax(1), labels, reduction="sum"),
    lambda y, labels: F.binary_cross_entropy_with_logits(y, F.one_hot(labels, WIDTH).float()),
    lambda y, labels: F.smooth_l1_loss(y[:, 0], labels.float()),
]


def apply_all(layers, x):
    for layer in layers:
        x = layer(x, x.sin()) if isinstance(layer, nn.Bilinear) else layer(x)
    return x


@pytest.mark.parametrize("seed", range(N_NETWORKS))
def test_a_random_network(seed):
    def scenario(wrap):
        rng = random.Random(seed)
        ex.manual_seed(seed)
        layers = nn.ModuleList([rng.choice(LAYERS)() for _ in range(rng.randint(2, 7))])
        layers.append(nn.Linear(WIDTH, WIDTH))
        parameters = list(layers.parameters())
        optimizer, loss_of = rng.choice(OPTIMIZERS)(parameters), rng.choice(LOSSES)
        how = rng.choice(["step", "step", "model", "loss", "backward"])
        clip, set_to_none, every = rng.random() < 0.5, rng.random() < 0.5, rng.choice([1, 1, 2])
        sizes = [rng.choice([3, 4]) for _ in range(2)]

        model = lambda x: apply_all(layers, x)  # noqa: E731 - it is wrapped below
        forward = wrap(model) if how == "model" else model
        loss_fn = lambda x, labels: loss_of(forward(x), labels)  # noqa: E731
        compute = wrap(loss_fn) if how == "loss" else loss_fn

        def differentiate(x, labels):
            loss = compute(x, labels)
            loss.backward()
            return loss

        run = wrap(differentiate) if how == "backward" else differentiate

        def step(x, labels, update):
            loss = run(x, labels)
            if update:
                if clip:
                    nn.utils.clip_grad_norm_(parameters, 1.0)
                optimizer.step()
                optimizer.zero_grad(set_to_none=set_to_none)
            return loss

        whole_step = wrap(step) if how == "step" else step
        for i in range(8):
            layers.train(i % 4 != 3)
            rows = sizes[i // 3 % 2]
            labels = whole(i, rows, high=WIDTH)
            loss = whole_step(draw(i, rows, WIDTH), labels, i % every == 0)
            yield loss, dict(layers.state_dict()), [p.grad for p in parameters]

    agree(scenario)
