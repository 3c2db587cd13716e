"""Checks before the first epoch: one batch, a second at most, one line of warning for each thing that looks wrong.

And one while it runs: whether steps leave graphs behind.
"""

from __future__ import annotations

import math
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.context import no_grad
from ..core.graph import next_number
from ..core.tensor import Tensor
from ..core.wording import counted
from ..errors import NoGradientPathError
from ..memory.holding import holders_since, n_live_nodes
from ..nn import Module
from ..nn.hidden_layers import hidden_parameters
from .batches import Inputs
from .measuring import fresh, kind_of

if TYPE_CHECKING:
    from .trainer import Trainer


def check(trainer: Trainer, batch: Any) -> list[str]:
    """What looks wrong with this model, loss and data. Metrics are tried as well, and raise what they have to say."""
    inputs, target = trainer.split(batch)
    _require_fitting_inputs(trainer.model, inputs)
    output, loss = trainer.stepper.forward(inputs, target)
    value = float(loss.item())
    if not math.isfinite(value):
        return [f"the loss is {value} before any training"]
    found = [] if trainer.batch else _shapes(kind_of(trainer.loss), output, target)
    found += _chance(trainer.loss, output[0] if trainer.batch else output, value)
    trainer.feeding.update(fresh(trainer.metrics), target, output)
    try:
        loss.backward()
    except NoGradientPathError as error:
        return [*found, str(error)]
    return found + _gradients(trainer)


def _require_fitting_inputs(model: Module, inputs: Inputs) -> None:
    """The model's forward takes what a batch has beside its target."""
    try:
        called = signature(model.forward)
    except (TypeError, ValueError):  # it does not say what it takes
        return
    try:
        called.bind(**inputs) if isinstance(inputs, dict) else called.bind(*inputs)
    except TypeError as error:
        what = (
            f"the entries {', '.join(inputs)} beside 'target'"
            if isinstance(inputs, dict)
            else f"{counted(len(inputs), 'input')}, all but the last of it, which is the target"
        )
        name = type(model).__name__
        raise TypeError(
            f"Trainer: a batch gives the model {what}, but {name}.forward{called} does not take that: {error}; "
            "change forward or the data set, or override Trainer.split"
        ) from None


def _shapes(kind: str, output: Any, target: Any) -> list[str]:
    """Losses of numbers broadcast: (32, 1) against (32,) would be 32 x 32 differences."""
    if not isinstance(output, Tensor) or not isinstance(target, Tensor):
        return []
    ours, theirs = tuple(output.shape), tuple(target.shape)
    if ours == theirs:
        return []
    of_classes = kind in ("cross_entropy", "nll") or _squeezed(ours) != _squeezed(theirs)
    if of_classes and not target.dtype.is_floating_point:  # numbers of classes have a dimension less
        return []
    try:
        both = np.broadcast_shapes(ours, theirs)
    except ValueError:
        return []
    return [f"output {ours} and target {theirs} differ and broadcast to {both} in the loss: squeeze one of them"]


def _squeezed(shape: tuple[int, ...]) -> list[int]:
    return [size for size in shape if size != 1]


def _chance(loss: Any, output: Any, value: float) -> list[str]:
    """An untrained classifier should be about as uncertain as chance."""
    kind = kind_of(loss)
    if not kind or not isinstance(output, Tensor) or getattr(loss, "reduction", "mean") != "mean":
        return []
    binary = kind in ("logits", "probabilities")
    n_classes = 2 if binary else int(output.shape[1] if output.ndim > 1 else output.shape[0])
    chance = math.log(n_classes)
    told = f"the first loss is {value:.3g}, guessing among {n_classes} classes would give {chance:.3g}"
    if value > 1.5 * chance + 0.5:
        return [f"{told}: the last layer's weights may be too large, or inputs not scaled"]
    if value < 0.3 * chance:
        return [f"{told}: is the model trained already, or does the input hold the answer?"]
    if kind == "cross_entropy" and _are_probabilities(output):
        return ["the output looks like probabilities; cross_entropy wants scores: leave the softmax out"]
    return []


def _are_probabilities(output: Tensor) -> bool:
    with no_grad():
        sums = output.sum(1 if output.ndim > 1 else 0)
        return bool((output >= 0).all().item()) and bool(((sums - 1).abs() < 1e-3).all().item())


def _gradients(trainer: Trainer) -> list[str]:
    trained = [(name, p) for name, p in trainer.model.named_parameters() if p.requires_grad]
    without = [name for name, p in trained if p.grad is None]
    zero = [n for n, p in trained if p.grad is not None and p.numel() and not bool((p.grad != 0).any().item())]
    known = {id(p) for group in trainer.optimizer.param_groups for p in group["params"]}
    left_out = [name for name, p in trained if id(p) not in known]
    found = []
    if without:
        found.append(f"no gradient reaches {_some(without)}: is it used in forward?")
    if zero:
        found.append(f"the gradient of {_some(zero)} is all zeros on this batch: dead units, or a detached path?")
    for name, advice, p in hidden_parameters(trainer.model):
        if p.grad is not None:
            found.append(f"{name} gets a gradient but is no parameter of the model, and is not trained; {advice}")
            break
    if left_out:
        why = "was it made before they were, or of another model?"
        found.append(f"the optimizer does not have {_some(left_out)}: {why}")
    return found


class KeptGraphs:
    """Looks, after two of the first steps, whether the graphs of all steps between are still there."""

    FIRST, SECOND = 16, 48  # after which steps

    def __init__(self) -> None:
        self._n_steps = 0
        self._n_nodes = 0
        self._number = 0  # of the newest node then

    def after_step(self) -> str:
        """What keeps the graphs of steps, if it is known by now that something does; "" otherwise."""
        self._n_steps += 1
        if self._n_steps == self.FIRST:
            self._n_nodes, self._number = n_live_nodes(), next_number()
        elif self._n_steps == self.SECOND and n_live_nodes() - self._n_nodes >= self.SECOND - self.FIRST:
            found = holders_since(self._number).accumulating
            who = str(found[0]) if found else "something keeps the graph of every step"
            return f"{who}: memory grows with every step; keep loss.detach() or loss.item() instead"
        return ""


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
