"""Random ops in compiled functions draw what they draw in eager mode, from the same seed."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import distributions, nn
from extempo.nn import functional as F

from .agreement import CALLS, agree, draw, grads


@pytest.mark.parametrize("inside", [True, False])
def test_dropout_in_training_and_evaluation(inside):
    def scenario(wrap):
        ex.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.4), nn.Linear(8, 2), nn.AlphaDropout(0.2))

        def f(x):
            loss = net(x).square().sum()
            if inside:
                loss.backward()
            return loss

        run = wrap(f)
        ex.manual_seed(7)
        for i in range(10):
            net.train(i % 4 != 3)
            loss = run(draw(i, 3, 4))
            if not inside:
                loss.backward()
            yield loss, grads(*net.parameters()), ex.rand(2)

    agree(scenario)


def test_every_way_to_draw():
    def scenario(wrap):
        generator = ex.Generator()
        generator.manual_seed(5)

        def f(x):
            yield_ = [
                ex.rand(2, 3),
                ex.randn_like(x),
                ex.randint(0, 9, (4,)),
                ex.randperm(5),
                ex.bernoulli(x.sigmoid()),
                ex.multinomial(x.softmax(1), 2),
                ex.normal(0.0, 1.0, (3,)),
                ex.rand(2, generator=generator),
                x.clone().uniform_(-1, 1) + x,
                x.clone().normal_() * 2,
                F.dropout(x + 1, 0.5),
                F.rrelu(x, training=True),
                F.gumbel_softmax(x, hard=True),
                distributions.Normal(x, 1.0).rsample(),
                distributions.Categorical(logits=x).sample(),
                nn.init.xavier_uniform_(ex.empty(2, 3)),
            ]
            return [t * 1 for t in yield_]

        run = wrap(f)
        for i in range(CALLS):
            yield run(draw(i, 2, 3)), ex.rand(1)

    agree(scenario)


def test_a_seed_set_inside():
    def scenario(wrap):
        def f(x, seed):
            a = F.dropout(x, 0.5)
            ex.manual_seed(seed)
            b = F.dropout(x, 0.5)
            state = ex.get_rng_state()
            c = ex.rand_like(x)
            ex.set_rng_state(state)
            return a, b, c, ex.rand_like(x)

        run = wrap(f)
        for i in range(CALLS):
            yield run(draw(i, 3, 4), i // 2)

    agree(scenario)


def test_the_same_seed_gives_the_same_draws_whether_planned_or_not():
    run = ex.compile(lambda x: (F.dropout(x, 0.5) * 2, ex.rand(3)))
    seen = []
    for _ in range(CALLS):
        ex.manual_seed(11)
        seen.append([t.tolist() for t in run(ex.ones(5))])
    assert all(s == seen[0] for s in seen)
    later = run(ex.ones(5))[0].tolist(), run(ex.ones(5))[0].tolist()
    assert later[0] != later[1]


def test_recorded_draws_are_kept_for_backward():
    def scenario(wrap):
        w = draw(1, 6, grad=True)
        run = wrap(lambda x: F.dropout(x * w, 0.5))
        for i in range(CALLS):
            y = run(draw(i, 6))
            ex.rand(3)
            y.sum().backward()
            yield y, w.grad

    agree(scenario)


def test_recurrent_layers_with_dropout():
    def scenario(wrap):
        ex.manual_seed(0)
        rnn = nn.GRU(3, 4, num_layers=2, dropout=0.3)
        run = wrap(lambda x: rnn(x)[0].sum())
        for i in range(6):
            loss = run(draw(i, 2 + i % 3, 2, 3))
            loss.backward()
            yield loss, grads(*rnn.parameters())

    agree(scenario)


def test_attention_with_dropout():
    def scenario(wrap):
        ex.manual_seed(0)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        run = wrap(lambda x: layer(x).square().mean())
        for i in range(6):
            loss = run(draw(i, 2, 3 + i % 2, 8))
            loss.backward()
            yield loss, grads(*layer.parameters())

    agree(scenario)
