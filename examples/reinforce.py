"""REINFORCE on a small environment that comes with it: catch the falling ball.

An episode is plain Python: look, decide, draw an action, move, until the ball is down; how long it takes differs from
episode to episode. `ex.batch` plays many episodes side by side and runs the policy once for all that wait for it.

    python examples/reinforce.py
"""

from __future__ import annotations

import random

import extempo as ex
from extempo import nn, optim
from extempo.nn import functional as F

N_COLUMNS = 7
LEFT, STAY, RIGHT = 0, 1, 2


class Catch:
    """A ball falls, drifting by the wind; the basket moves one column per step. Caught is 1, missed is -1."""

    def __init__(self, seed: int) -> None:
        self.draws = random.Random(seed)
        self.height = self.draws.randint(5, 9)
        self.ball, self.basket = self.draws.randrange(N_COLUMNS), self.draws.randrange(N_COLUMNS)
        self.wind = self.draws.choice((-1, 0, 1))

    def view(self) -> list[float]:
        away = [float(self.ball - self.basket == i) for i in range(1 - N_COLUMNS, N_COLUMNS)]
        return [*away, self.height / 9, float(self.wind), self.ball / N_COLUMNS]

    def move(self, action: int) -> float | None:
        """The reward, once the ball is down."""
        self.basket = min(max(self.basket + action - 1, 0), N_COLUMNS - 1)
        if self.height % 3 == 0:
            self.ball = min(max(self.ball + self.wind, 0), N_COLUMNS - 1)
        self.height -= 1
        return None if self.height else (1.0 if self.ball == self.basket else -1.0)


class Policy(nn.Module):
    def __init__(self, n_hidden: int = 48) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2 * N_COLUMNS + 2, n_hidden), nn.Tanh(), nn.Linear(n_hidden, 3))

    def play(self, seed: int):
        """One episode: the logarithms of the chances of what was done, and the reward."""
        world, logs, reward = Catch(seed), [], None
        while reward is None:
            chances = F.log_softmax(self.net(ex.tensor(world.view())), 0)
            likely = chances.exp().tolist()  # Python waits for the values here, and so do the other episodes
            (action,) = world.draws.choices((LEFT, STAY, RIGHT), likely)
            logs.append(chances[action])
            reward = world.move(action)
        return ex.stack(logs).sum(), reward

    def play_best(self, seed: int) -> float:
        world, reward = Catch(seed), None
        while reward is None:
            reward = world.move(self.net(ex.tensor(world.view())).argmax().item())
        return reward


def main(n_steps: int = 50, n_episodes: int = 48) -> None:
    ex.manual_seed(0)
    policy = Policy()
    optimizer = optim.Adam(policy.parameters(), lr=0.02)
    play, play_best = ex.batch(policy.play), ex.batch(policy.play_best)
    new_seeds = list(range(10**6, 10**6 + 200))  # episodes that training does not see

    def caught() -> float:
        with ex.no_grad():
            return sum(reward > 0 for reward in play_best(new_seeds)) / len(new_seeds)

    before = caught()
    print(f"untrained: catches {before:.0%} of the balls")
    for i in range(1, n_steps + 1):
        results = play(list(range(i * n_episodes, (i + 1) * n_episodes)))
        rewards = [reward for _, reward in results]
        usual = sum(rewards) / len(rewards)
        loss = -ex.stack([log * (reward - usual) for log, reward in results]).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if i % 10 == 0:
            print(f"step {i:3}  mean reward {usual:5.2f}  catches {caught():.0%}")
    print(f"after {n_steps * n_episodes} episodes: catches {caught():.0%} of 200 new balls, {before:.0%} untrained")


if __name__ == "__main__":
    main()
