"""One step of training: forward, backward, a look at the loss, clipping, the optimizer.

A loss or a gradient norm that is not finite ends the step before the optimizer has seen it. What forward has changed
until then, draws and batch statistics, is put back, so the model is as it was before the step, and the step can be run
again, op by op, to find the op that is to blame.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable
from typing import Any

from .. import ops
from ..autograd import detect_anomaly
from ..batching.api import batch as batched
from ..core.tensor import Tensor
from ..errors import AutogradError, DtypeError, ExtempoError, NonFiniteError, ShapeError
from ..func.tree import leaves
from ..inspect.nonfinite import first_nonfinite, is_finite
from ..inspect.recording import record
from ..nn import Module
from ..nn.utils import clip_grads_with_norm_, get_total_norm
from ..ragged_tensors.tensor import RaggedTensor
from ..random import current_generator
from ..tracing.api import compile as compiled
from ..tracing.api import eager
from .batches import Inputs, n_samples

EXPLODED = 1e6  # weights beyond this are nobody's wish
MOST_RECORDED = 1 << 28  # bytes of values of a step that is written to a file


class NonFiniteLossError(ExtempoError):
    """The loss became nan or infinite; the message names the op that made it so. The model is as it was before.

    The step is in a file of `ex.record`, which the message names, too.
    """


class _NonFiniteNorm(Exception):
    """The gradients' norm is not finite; nothing was changed yet."""


class _OneSample:
    """Output and loss of one sample: what `ex.batch` runs. An object of its own for each model, by which `ex.batch`
    remembers whether batching pays."""

    def __init__(self, model: Module, loss: Callable[..., Tensor]) -> None:
        self._model = model
        self._loss = loss

    def __call__(self, *given: Any, names: tuple[str, ...] = ()) -> tuple[Any, Tensor]:
        *inputs, target = given
        output = self._model(**dict(zip(names, inputs, strict=True))) if names else self._model(*inputs)
        return output, self._loss(output, target)


class Stepper:
    """Runs a model on batches, with and without learning from them."""

    def __init__(
        self,
        model: Module,
        loss: Callable[..., Tensor],
        optimizer: Any,
        compile: bool,
        batch: bool,
        clip_grad_norm: float | None,
    ) -> None:
        self._model = model
        self._loss = loss
        self._optimizer = optimizer
        self._batch = batch
        self._clip_grad_norm = clip_grad_norm
        self._each = batched(_OneSample(model, loss))
        self.learn = compiled(self._learn) if compile else self._learn
        self.look = compiled(self.forward) if compile else self.forward
        self.before_forward: Callable[[int, bool], None] | None = None  # where several processes train together
        self._draws = (0, 0, 0)  # where the random stream was before the step
        self._buffers: list[tuple[Tensor, int, Tensor]] = []  # each with its version and a copy

    def forward(self, inputs: Inputs, target: Any) -> tuple[Any, Tensor]:
        """Output and loss of a batch."""
        if self._batch:
            named = isinstance(inputs, dict)
            columns = list(inputs.values()) if isinstance(inputs, dict) else inputs
            results = self._each(*columns, target, **({"names": tuple(inputs)} if named else {}))
            if not results:
                raise ShapeError("Trainer: a batch without samples")
            for _, loss in results:
                _require_number(loss)
            return [output for output, _ in results], ops.stack([loss.reshape(()) for _, loss in results]).mean()
        output = self.output(inputs)
        if output is None:
            name = type(self._model).__name__
            raise DtypeError(f"Trainer: {name}.forward gave None; does it forget to return its result?")
        loss = self._loss(output, target)
        _require_number(loss)
        return output, loss

    def output(self, inputs: Inputs) -> Any:
        """What the model makes of a batch; with `batch`, a list."""
        if self._batch:
            if isinstance(inputs, dict):
                names, model = tuple(inputs), self._model
                return batched(lambda *given: model(**dict(zip(names, given, strict=True))))(*inputs.values())
            return batched(self._model)(*inputs)
        return self._model(**inputs) if isinstance(inputs, dict) else self._model(*inputs)

    def _learn(self, inputs: Inputs, target: Any, share: float, update: bool) -> tuple[Any, float]:
        if self.before_forward is not None:
            self.before_forward(n_samples(target), update)
        output, loss = self.forward(inputs, target)
        (loss if share == 1.0 else loss * share).backward()
        value = float(loss.item())  # read after backward: so both are one plan
        if update and math.isfinite(value):
            self.update()
        return output, value

    def update(self, factor: float = 1.0) -> None:
        """Let the optimizer learn from the gradients, times a factor, and forget them."""
        if factor != 1.0:
            for p in self._with_gradients():
                p.grad.mul_(factor)
        if self._clip_grad_norm is not None:
            parameters = self._with_gradients()
            norm = get_total_norm([p.grad for p in parameters])
            if not math.isfinite(norm.item()):
                raise _NonFiniteNorm
            clip_grads_with_norm_(parameters, self._clip_grad_norm, norm)
        self._optimizer.step()
        self._optimizer.zero_grad()

    def _with_gradients(self) -> list[Any]:
        return [p for group in self._optimizer.param_groups for p in group["params"] if p.grad is not None]

    # ---- steps that can be undone

    def begin(self) -> None:
        """Know the buffers of model and loss, which steps keep; there may be others than in the last epoch."""
        modules = [module for module in (self._model, self._loss) if isinstance(module, Module)]
        buffers = [buffer for module in modules for buffer in module.buffers()]
        self._buffers = [(buffer, buffer._version, buffer.clone()) for buffer in buffers]

    def keep(self) -> None:
        """Remember what forward may change: the random stream, and buffers that the last step has written to."""
        generator = current_generator()
        self._draws = generator._seed, generator._next_draw, generator._next_batch  # get_state makes a tensor
        for i, (buffer, version, _) in enumerate(self._buffers):
            if buffer._version != version:
                self._buffers[i] = (buffer, buffer._version, buffer.clone())

    def undo(self) -> None:
        """Put back what was remembered, and forget gradients."""
        generator = current_generator()
        generator._seed, generator._next_draw, generator._next_batch = self._draws
        for buffer, _, kept in self._buffers:
            if kept.shape == buffer.shape:
                buffer.detach().copy_(kept)
        self._optimizer.zero_grad()

    def run(self, inputs: Inputs, target: Any, share: float, update: bool) -> tuple[Any, float]:
        """Learn from a batch; raises NonFiniteLossError with the reason, and then nothing has changed."""
        self.keep()
        try:
            output, loss = self.learn(inputs, target, share, update)
        except _NonFiniteNorm:
            self.undo()
            why = self._why_gradient(inputs, target) + self._recorded(inputs, target)
            raise NonFiniteLossError(why) from None
        except NonFiniteError as error:  # what a guard has met
            self.undo()
            whole = "" if self._spoiled() else "; the model is as it was before this step"
            raise NonFiniteLossError(f"{error}{whole}{self._recorded(inputs, target)}") from None
        if not math.isfinite(loss):
            self.undo()
            why = self._spoiled() or f"{self._to_blame(inputs, target)}; the model is as it was before this step"
            raise NonFiniteLossError(f"the loss is {loss}: {why}{self._recorded(inputs, target)}")
        return output, loss

    def finish(self, factor: float) -> None:
        """The update of a last group that was not full."""
        try:
            self.update(factor)
        except _NonFiniteNorm:
            self._optimizer.zero_grad()
            raise NonFiniteLossError("the gradients are not finite; the weights are as before this step") from None

    def why_nan(self, inputs: Inputs, target: Any) -> str:
        """What makes the loss of a batch nan, where nothing is learnt."""
        self.keep()
        return f"the loss is nan: {self._spoiled() or self._to_blame(inputs, target)}"

    def _spoiled(self) -> str:
        """The parameter that is to blame, if one is."""
        spoiled = [n for n, p in self._model.named_parameters() if not is_finite(p)]
        if not spoiled:
            return ""
        return (
            f"parameter {spoiled[0]} is not finite since the last step, whose gradient was too large or nan; lower "
            "the learning rate, or set clip_grad_norm, which also stops before such a step"
        )

    def _to_blame(self, inputs: Inputs, target: Any) -> str:
        """The data or the op that is to blame, by running the step again."""
        try:
            found = first_nonfinite(self.forward, inputs, target, model=self._model)
        finally:
            self.undo()
        given = [*(inputs.items() if isinstance(inputs, dict) else enumerate(inputs)), ("target", target)]
        bad = [
            name if isinstance(name, str) else f"input {name}"
            for name, value in given
            if any(isinstance(t, Tensor | RaggedTensor) and not is_finite(t) for t in leaves(value))
        ]
        reasons = [f"{bad[0]} of this batch is not finite"] if bad else []
        if found is not None:
            reasons.append(str(found))
        largest = max((float(p.abs().max().item()) for p in self._model.parameters() if p.numel()), default=0.0)
        if largest > EXPLODED:
            reasons.append(
                f"weights have grown to {largest:.1g}, training has diverged: lower the learning rate, or set "
                "clip_grad_norm"
            )
        return ", and ".join(reasons) or "a second run was finite"

    def _recorded(self, inputs: Inputs, target: Any) -> str:
        """Run the step once more into a file, and say what to do with it."""
        path = os.path.join(tempfile.gettempdir(), f"extempo-step-{os.getpid()}.extempo")
        try:
            with record(path, most_bytes=MOST_RECORDED):
                self.forward(inputs, target)[1].backward()
        except (ExtempoError, OSError):  # too large, or nowhere to write it: the reason for the recording matters more
            return ""
        finally:
            self.undo()
        return f". The step can be run again, node by node: extempo replay {path}"

    def _why_gradient(self, inputs: Inputs, target: Any) -> str:
        text = "the gradients are not finite, the loss is"
        try:
            with eager(), detect_anomaly():
                self.forward(inputs, target)[1].backward()
            spoiled = [n for n, p in self._model.named_parameters() if p.grad is not None and not is_finite(p.grad)]
            text += f": look at {spoiled[0]}" if spoiled else ""
        except AutogradError as error:
            text += f": {error}"
        finally:
            self.undo()
        return f"{text}; the model is as it was before this step"


def _require_number(loss: Any) -> None:
    if not isinstance(loss, Tensor):
        raise DtypeError(f"Trainer: loss(output, target) must give a tensor with one number, got {type(loss).__name__}")
    if loss.numel() != 1:
        raise ShapeError(
            f"Trainer: loss(output, target) must give one number, got shape {tuple(loss.shape)}; use reduction='mean'"
        )
