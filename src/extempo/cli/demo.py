"""`extempo demo`: fit y = sin(3x) with a two-layer network, written with nothing but tensors and `backward()`.

Read `fit` as a first example: the forward pass is plain Python, `backward()` fills `.grad`, and the update is
arithmetic under `no_grad`. The same seed gives the same numbers on every run.
"""

import time
from collections.abc import Callable, Iterator

import extempo as ex

N_POINTS = 64
N_HIDDEN = 32
N_STEPS = 1000
N_REPORTS = 8
LEARNING_RATE = 0.05
MOMENTUM = 0.9

N_SHOWN = 11  # rows of the closing comparison
N_PLOT_COLUMNS = 45

Network = Callable[[ex.Tensor], ex.Tensor]


def target(x: ex.Tensor) -> ex.Tensor:
    """The function to learn."""
    return ex.sin(3.0 * x)


def fit(report: Callable[[int, ex.Tensor], None]) -> Network:
    """Train a network on points of `target` and return it; `report` is called with each step's number and loss."""
    ex.manual_seed(0)
    x = ex.linspace(-1.0, 1.0, N_POINTS).unsqueeze(1)  # x, y: (point, 1)
    y = target(x)

    w1 = (3.0 * ex.randn(1, N_HIDDEN)).requires_grad_()
    b1 = ex.randn(N_HIDDEN, requires_grad=True)
    w2 = (ex.randn(N_HIDDEN, 1) / N_HIDDEN**0.5).requires_grad_()
    b2 = ex.zeros(1, requires_grad=True)
    parameters = [w1, b1, w2, b2]
    velocities = [ex.zeros_like(parameter) for parameter in parameters]

    def network(points: ex.Tensor) -> ex.Tensor:
        return ex.tanh(points @ w1 + b1) @ w2 + b2

    for step in range(N_STEPS + 1):
        loss = ((network(x) - y) ** 2).mean()
        loss.backward()
        with ex.no_grad():
            for parameter, velocity in zip(parameters, velocities, strict=True):
                velocity.mul_(MOMENTUM).add_(parameter.grad)
                parameter.sub_(LEARNING_RATE * velocity)
                parameter.grad = None
        report(step, loss)
    return network


def run(say: Callable[[str], None]) -> None:
    """Fit the network and compare it with the truth; `say` is called with each line as it is known."""

    def report(step: int, loss: ex.Tensor) -> None:
        if step % (N_STEPS // N_REPORTS) == 0:
            say(f"step {step:4d}   loss {loss.item():.6f}")

    say(f"Fitting y = sin(3x): {N_POINTS} points, a 1-{N_HIDDEN}-1 tanh network, SGD with momentum")
    started = time.perf_counter()
    network = fit(report)
    say(f"{N_STEPS} steps in {time.perf_counter() - started:.2f} s")
    say("")
    for line in compare(network):
        say(line)


def compare(network: Network) -> Iterator[str]:
    """The truth beside the prediction, at points that were not trained on, each drawn on one line of text."""
    x: ex.Tensor = ex.linspace(-0.95, 0.95, N_SHOWN)
    with ex.no_grad():
        truths = target(x).tolist()
        predictions = network(x.unsqueeze(1)).squeeze(1).tolist()
    yield f"{'x':>6} {'truth':>8} {'network':>8}   o truth, x network, * both"
    for at, truth, prediction in zip(x.tolist(), truths, predictions, strict=True):
        yield f"{at:6.2f} {truth:8.3f} {prediction:8.3f}   {draw(truth, prediction)}"
    worst = max(abs(truth - prediction) for truth, prediction in zip(truths, predictions, strict=True))
    yield f"largest difference {worst:.3f}"


def draw(truth: float, prediction: float) -> str:
    """One row of text over [-1, 1]: 'o' where the truth lies, 'x' where the prediction does, '*' where both do."""

    def column(value: float) -> int:
        return round((min(max(value, -1.0), 1.0) + 1.0) / 2.0 * (N_PLOT_COLUMNS - 1))

    cells = [" "] * N_PLOT_COLUMNS
    cells[N_PLOT_COLUMNS // 2] = "|"
    cells[column(truth)] = "o"
    cells[column(prediction)] = "*" if column(truth) == column(prediction) else "x"
    return "".join(cells).rstrip()
