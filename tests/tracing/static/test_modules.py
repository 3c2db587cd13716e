"""Static functions and modules: train and eval, buffers, random draws, inference, backward outside."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn, optim
from extempo.errors import GraphError

from ..agreement import draw, grads, needs_native_code
from .static_agreement import CALLS, WAYS, agree, going, mlp, state, static


def test_batch_norm_in_train_and_eval():
    def scenario(wrap):
        model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2))
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            loss = model(x).square().mean()
            if model.training:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            return loss.detach()

        run = wrap(step)
        for i in range(2 * CALLS):
            model.train(i % 3 < 2)
            yield run(draw(i, 5, 4)), state(model)

    agree(scenario)


def test_parameters_and_buffers_that_are_changed_outside():
    def scenario(wrap):
        model = nn.BatchNorm1d(3).eval()
        scale = draw(1, 3)
        run = wrap(lambda x: model(x) * scale)
        with ex.no_grad():
            for i in range(CALLS):
                yield run(draw(i, 4, 3))
                model.weight.mul_(1.5)
                model.running_mean += 1
                scale.add_(i)
                if i == 2:
                    model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()})
                    model.bias.data = draw(30, 3)

    agree(scenario)


@pytest.mark.parametrize("mode", [ex.no_grad, ex.inference_mode])
def test_a_module_for_inference(mode):
    def scenario(wrap):
        model = nn.Sequential(mlp(4, 5, 2), nn.Dropout(0.5)).eval()
        run = wrap(model)
        with mode():
            for i in range(CALLS):
                y = run(draw(i, 3, 4))
                yield y, y.is_inference()

    agree(scenario)


def test_a_module_with_loss_and_backward_outside():
    def scenario(wrap):
        model = mlp(4, 5, 2)
        run = wrap(model)
        optimizer = optim.Adam(model.parameters(), lr=0.01)
        for i in range(CALLS):
            loss = (run(draw(i, 3, 4)).square() * model[0].bias.sum()).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss, state(model), grads(*model.parameters())

    agree(scenario)


def test_tracked_results_are_parts_of_a_graph():
    def scenario(wrap):
        w = draw(0, 4, grad=True)
        run = wrap(lambda x: {"h": (h := (x * w).tanh()), "loss": [h.sum()], "count": (h > 0).sum()})
        for i in range(CALLS):
            out = run(draw(i, 4))
            yield out, out["loss"][0].grad_fn, out["h"].is_leaf
            (out["loss"][0] * 2 + out["h"][0]).backward()
            yield w.grad

    agree(scenario)


def test_a_graph_that_goes_through_two_static_functions():
    def scenario(wrap):
        encoder, head = mlp(4, 5, 3), mlp(3, 4, 1)
        encode, score = wrap(encoder), wrap(head)
        for i in range(CALLS):
            loss = score(encode(draw(i, 3, 4)).relu()).mean()
            loss.backward()
            yield loss, grads(*encoder.parameters(), *head.parameters())

    agree(scenario)


def test_a_compiled_module_keeps_train_and_eval_apart():
    def scenario(wrap):
        model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
        run = wrap(model)
        for i in range(2 * CALLS):
            run.train(i % 2 == 0)
            yield run(draw(i, 3, 4)), model.training

    agree(scenario)


def test_recurrent_and_attention_layers():
    def scenario(wrap):
        rnn, layer = nn.LSTM(3, 4), nn.TransformerEncoderLayer(4, 2, 8, dropout=0.1)
        optimizer = optim.Adam([*rnn.parameters(), *layer.parameters()], lr=0.01)

        def step(x):
            h, _ = rnn(x)
            loss = layer(h).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        run = wrap(step)
        for i in range(CALLS):
            yield run(draw(i, 5, 2, 3)), state(rnn), state(layer)

    agree(scenario)


def test_a_parameter_that_is_replaced_is_the_new_one():
    def scenario(wrap):
        model = nn.Linear(3, 3)
        run = wrap(lambda x: model(x) * 2)
        for i in range(CALLS):
            if i == 3:
                model.weight = nn.Parameter(draw(40, 3, 3))
            y = run(draw(i, 2, 3))
            y.sum().backward()
            yield y, grads(*model.parameters())

    agree(scenario)


def test_a_retained_gradient():
    def scenario(wrap):
        w = draw(0, 3, grad=True)

        def step(x):
            h = (x * w).exp()
            h.retain_grad()
            h.square().sum().backward()
            return h.grad

        run = wrap(step)
        for i in range(CALLS):
            yield run(draw(i, 3)), w.grad

    agree(scenario)


def test_a_metric_that_a_schedule_reads():
    def scenario(wrap):
        model = nn.Linear(3, 1)
        optimizer = optim.SGD(model.parameters(), lr=1.0)
        schedule = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            schedule.step(loss)
            return loss

        run = wrap(step)
        for i in range(CALLS):
            yield run(draw(i % 2, 2, 3)), optimizer.param_groups[0]["lr"]

    agree(scenario)


@needs_native_code
@pytest.mark.parametrize("way", WAYS)
def test_modules_that_changed_are_refused(way):
    x = ex.ones(2, 3)
    with going(way):
        hooked, replaced = nn.Sequential(nn.Linear(3, 3)), nn.Sequential(nn.Linear(3, 3))
        run_hooked, run_replaced = static(hooked), static(replaced)
        run_hooked(x)
        run_replaced(x)
    hooked[0].register_forward_hook(lambda *args: None)
    with pytest.raises(GraphError, match="got a hook"):
        run_hooked(x)
    replaced[0] = nn.Linear(3, 3)
    with pytest.raises(GraphError, match="a module was replaced"):
        run_replaced(x)
