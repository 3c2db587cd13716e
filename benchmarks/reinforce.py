"""REINFORCE written for one episode: 32 environments whose episodes take 10 to 50 steps, policy 8-64-64-4, Adam.

The action is read with .item() at every step and goes into a simulator in plain Python, whose time is counted apart. It
is the argmax of scores plus Gumbel noise, a draw from the policy; the noise is drawn before, the same for all peers.
"""

from __future__ import annotations

import time
from functools import partial
from itertools import pairwise
from typing import Any

import dynet_peer
import numpy as np
from workload import (
    LEARNING_RATE,
    Each,
    Library,
    Peers,
    Step,
    TimedApart,
    Workload,
    Wrap,
    as_it_is,
    batch_peers,
    cell,
    fill,
    mirrored,
    one_by_one,
    run_this,
    torch,
    trainer,
)

N_EPISODES, N_SEEN, N_HIDDEN, N_ACTIONS = 32, 8, 64, 4
SHORTEST, LONGEST = 10, 50
BLOCK, N_BLOCKS = 2, 40
DISCOUNT, PUSH, FRICTION = 0.95, 0.1, 0.9

Clock = list[float]


class Environment:
    """A point on a plane that is pushed in one of four directions and should reach a target that moves.

    Each method adds the time that it takes to the clock.
    """

    def __init__(self, start: list[float], n_steps: int, clock: Clock) -> None:
        self.x, self.y, self.to_x, self.to_y, self.wind_x, self.wind_y = start
        self.speed_x = self.speed_y = 0.0
        self.n_left, self.clock = n_steps, clock

    def observe(self) -> list[float]:
        before = time.perf_counter()
        away_x, away_y = self.to_x - self.x, self.to_y - self.y
        seen = [self.x, self.y, self.speed_x, self.speed_y, away_x, away_y, self.wind_x, self.wind_y]
        self.clock[0] += time.perf_counter() - before
        return seen

    def step(self, action: int) -> float:
        """The reward of an action: the closer to the target the better."""
        before = time.perf_counter()
        sign = PUSH if action % 2 else -PUSH
        push_x, push_y = (sign, 0.0) if action < 2 else (0.0, sign)
        self.speed_x = FRICTION * self.speed_x + push_x + 0.01 * self.wind_x
        self.speed_y = FRICTION * self.speed_y + push_y + 0.01 * self.wind_y
        self.x, self.y = self.x + self.speed_x, self.y + self.speed_y
        self.to_x, self.to_y = self.to_x + 0.02 * self.wind_y, self.to_y - 0.02 * self.wind_x
        self.n_left -= 1
        away_x, away_y = self.to_x - self.x, self.to_y - self.y
        reward = 1.0 / (1.0 + away_x * away_x + away_y * away_y)
        self.clock[0] += time.perf_counter() - before
        return reward


def returns_of(rewards: list[float]) -> list[float]:
    """What each action brought from there on, discounted, less the mean over the episode."""
    total, found = 0.0, []
    for reward in reversed(rewards):
        total = reward + DISCOUNT * total
        found.append(total)
    mean = sum(found) / len(found)
    return [each - mean for each in reversed(found)]


def data() -> tuple[list[Any], list[list[list[float]]], list[list[Any]]]:
    """Weights (out, in) and biases (out,), and of each step the starts of its episodes and their noise (time, action).

    All blocks have as many steps of environments.
    """
    rng = np.random.RandomState(0)
    widths = [N_SEEN, N_HIDDEN, N_HIDDEN, N_ACTIONS]
    weights: list[Any] = []
    for n_in, n_out in pairwise(widths):
        weights += [(rng.randn(n_out, n_in) / n_in**0.5).astype("f4"), np.zeros(n_out, "f4")]
    starts, noise = [], []
    for _ in range(N_BLOCKS):
        drawn = [rng.gumbel(size=(n, N_ACTIONS)) for n in mirrored(rng, SHORTEST, LONGEST, BLOCK * N_EPISODES)]
        for k in range(0, len(drawn), N_EPISODES):
            starts.append(rng.randn(N_EPISODES, 6).tolist())
            noise.append([gumbel.astype("f4") for gumbel in drawn[k : k + N_EPISODES]])
    return weights, starts, noise


def program(library: Library, each: Each = one_by_one, wrap: Wrap = as_it_is, rows: bool = False) -> Step:
    """The code of one episode, run for every environment. Observations are vectors, or rows of one."""
    lib = library()
    nn, F = lib.nn, lib.nn.functional
    weights, starts, noise = data()
    layers = nn.Sequential(
        nn.Linear(N_SEEN, N_HIDDEN), nn.Tanh(), nn.Linear(N_HIDDEN, N_HIDDEN), nn.Tanh(), nn.Linear(N_HIDDEN, N_ACTIONS)
    )
    parameters = fill(lib, layers.parameters(), weights)
    policy = cell(lib, layers)
    clock = [0.0]

    def loss_of_episode(environment: Environment, noise: list[Any]) -> Any:
        scores, actions, rewards = [], [], []
        while environment.n_left:
            seen = environment.observe()
            scores.append(policy(lib.tensor([seen] if rows else seen)))
            action = (scores[-1] + noise[len(actions)]).argmax().item()
            actions.append(action)
            rewards.append(environment.step(action))
        stacked = lib.cat(scores) if rows else lib.stack(scores)
        surprise = F.cross_entropy(stacked, lib.tensor(actions), reduction="none")
        return (surprise * lib.tensor(returns_of(rewards))).sum()

    losses_of = each(lib, loss_of_episode)

    def loss_of(starts: list[list[float]], noise: list[list[Any]]) -> Any:
        environments = [Environment(start, len(drawn), clock) for start, drawn in zip(starts, noise, strict=True)]
        return lib.stack(losses_of(environments, noise)).mean()

    tensors = [[list(lib.from_numpy(drawn).unbind()) for drawn in batch] for batch in noise]
    batches = list(zip(starts, tensors, strict=True))
    return TimedApart(trainer(lib, loss_of, lib.optim.Adam(parameters, lr=LEARNING_RATE), batches, wrap), clock)


def with_dynet() -> Step:
    dy = dynet_peer.dynet(1024)
    arrays, starts, noise = data()
    weights = dy.ParameterCollection()
    w1, b1, w2, b2, w3, b3 = (weights.parameters_from_numpy(a) for a in arrays)
    clock = [0.0]

    def loss_of_episode(start: list[float], noise: Any) -> Any:
        environment = Environment(start, len(noise), clock)
        surprises, rewards = [], []
        for drawn in noise:
            h = dy.tanh(dy.affine_transform([b1, w1, dy.inputVector(environment.observe())]))
            scores = dy.affine_transform([b3, w3, dy.tanh(dy.affine_transform([b2, w2, h]))])
            action = int((scores.npvalue() + drawn).argmax())
            surprises.append(dy.pickneglogsoftmax(scores, action))
            rewards.append(environment.step(action))
        return dy.dot_product(dy.concatenate(surprises), dy.inputVector(returns_of(rewards)))

    def loss_of(k: int) -> Any:
        samples = zip(starts[k % len(starts)], noise[k % len(noise)], strict=True)
        return dy.average([loss_of_episode(*sample) for sample in samples])

    return TimedApart(dynet_peer.trainer(loss_of, dy.AdamTrainer(weights, LEARNING_RATE), weights), clock)


PEERS: Peers = {
    **batch_peers(program),
    "torch": partial(program, torch, rows=True),
    "dynet": with_dynet,
}
WORKLOADS = [Workload("reinforce", __doc__, BLOCK, PEERS, batch_floor=0.25)]

if __name__ == "__main__":
    run_this(__file__)
