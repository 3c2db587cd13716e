"""Learning to act and to learn: an update of PPO, a step of DQN with its replay memory, and MAML."""

from __future__ import annotations

from typing import Any

import numpy as np
from workload import LEARNING_RATE, Step, Wrap

from .shared import filled, tensors

N_SEEN, N_ACTIONS, N_HIDDEN = 8, 4, 64
N_PPO, N_DQN, N_REPLAY = 64, 32, 1000
N_TASKS, N_POINTS, N_INNER = 4, 10, 3


def _mlp(lib: Any, n_out: int, seed: int) -> Any:
    nn = lib.nn
    hidden = [nn.Linear(N_SEEN, N_HIDDEN), nn.Tanh(), nn.Linear(N_HIDDEN, N_HIDDEN), nn.Tanh()]
    return filled(lib, nn.Sequential(*hidden, nn.Linear(N_HIDDEN, n_out)), seed)


def ppo(lib: Any, wrap: Wrap) -> Step:
    """An update of PPO on 64 transitions: clipped ratio, value loss, entropy, clipped gradients, Adam."""
    policy, value = _mlp(lib, N_ACTIONS, 0), _mlp(lib, 1, 1)
    weights = [*policy.parameters(), *value.parameters()]
    optimizer = lib.optim.Adam(weights, lr=LEARNING_RATE)

    def update(seen: Any, actions: Any, old: Any, advantages: Any, returns: Any) -> Any:
        logs = policy(seen).log_softmax(-1)
        ratio = (logs.gather(1, actions.unsqueeze(1)).squeeze(1) - old).exp()
        gain = lib.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
        entropy = -(logs.exp() * logs).sum(-1).mean()
        loss = 0.5 * (value(seen).squeeze(1) - returns).pow(2).mean() - gain - 0.01 * entropy
        optimizer.zero_grad()
        loss.backward()
        lib.nn.utils.clip_grad_norm_(weights, 0.5)
        optimizer.step()
        return loss

    run, rng, batches = wrap(lib, update), np.random.RandomState(1), []
    for _ in range(8):
        old = np.log(rng.dirichlet(np.ones(N_ACTIONS), N_PPO)[:, 0]).astype("f4")
        rest = [rng.randn(N_PPO).astype("f4") for _ in range(2)]
        actions = rng.randint(0, N_ACTIONS, N_PPO)
        batches.append(tensors(lib, rng.randn(N_PPO, N_SEEN).astype("f4"), actions, old, *rest))
    return lambda i: float(run(*batches[i % 8]).item())


def dqn(lib: Any, wrap: Wrap) -> Step:
    """A step of DQN: 32 transitions drawn from a replay memory, a target net that follows slowly, Adam."""
    F = lib.nn.functional
    net, target = _mlp(lib, N_ACTIONS, 0), _mlp(lib, N_ACTIONS, 0)
    optimizer = lib.optim.Adam(net.parameters(), lr=LEARNING_RATE)
    rng = np.random.RandomState(1)
    seen, after = tensors(lib, *rng.randn(2, N_REPLAY, N_SEEN).astype("f4"))
    actions, rewards = tensors(lib, rng.randint(0, N_ACTIONS, N_REPLAY), rng.randn(N_REPLAY).astype("f4"))

    def step(rows: Any) -> Any:
        with lib.no_grad():
            wanted = rewards[rows] + 0.99 * target(after[rows]).max(1)[0]
        found = net(seen[rows]).gather(1, actions[rows].unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(found, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with lib.no_grad():
            for mean, p in zip(target.parameters(), net.parameters(), strict=True):
                mean.mul_(0.995).add_(p, alpha=0.005)
        return loss

    run = wrap(lib, step)
    draws = tensors(lib, *rng.randint(0, N_REPLAY, (16, N_DQN)))
    return lambda i: float(run(draws[i % 16]).item())


def maml(lib: Any, wrap: Wrap) -> Step:
    """MAML on sines: three steps inside for each of four tasks, gradients through them, Adam outside."""
    rng = np.random.RandomState(0)
    shapes = [(40, 1), (40,), (40, 40), (40,), (1, 40), (1,)]
    arrays = [rng.randn(*s) / s[-1] ** 0.5 if len(s) > 1 else np.zeros(s) for s in shapes]
    weights = [lib.from_numpy(a.astype("f4")).requires_grad_() for a in arrays]
    optimizer = lib.optim.Adam(weights, lr=LEARNING_RATE)
    F = lib.nn.functional

    def loss_of(w: Any, x: Any, y: Any) -> Any:
        h = F.relu(F.linear(F.relu(F.linear(x, w[0], w[1])), w[2], w[3]))
        return F.mse_loss(F.linear(h, w[4], w[5]), y)

    def step(tasks: Any) -> Any:
        total = 0.0
        for x, y, x_after, y_after in tasks:
            fast = weights
            for _ in range(N_INNER):
                slopes = lib.autograd.grad(loss_of(fast, x, y), fast, create_graph=True)
                fast = [w - 0.01 * g for w, g in zip(fast, slopes, strict=True)]
            total = total + loss_of(fast, x_after, y_after)
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        return total

    def task() -> tuple[Any, ...]:
        height, phase = rng.uniform(0.1, 5), rng.uniform(0, np.pi)
        x = rng.uniform(-5, 5, (2, N_POINTS, 1)).astype("f4")
        y = (height * np.sin(x - phase)).astype("f4")
        return tensors(lib, x[0], y[0], x[1], y[1])

    run, batches = wrap(lib, step), [[task() for _ in range(N_TASKS)] for _ in range(8)]
    return lambda i: float(run(batches[i % 8]).item())
