"""Training and eval mode of a model's modules, left as they were found."""

from __future__ import annotations

from collections.abc import Iterator

from ..core.context import no_grad
from ..core.interrupts import block, certainly
from ..nn import Module


class Modes:
    """The mode of each module of a model."""

    def __init__(self, model: Module) -> None:
        self._model = model
        self._found = [(module, module.training) for module in model.modules()]

    def put_back(self) -> None:
        """Each module in the mode it was in; modules that came since are in the model's."""
        self._model.train(self._found[0][1])
        for module, training in self._found:
            module.training = training


@block
def evaluating(model: Module) -> Iterator[None]:
    """Eval mode and no gradients, inside."""
    modes = Modes(model)
    try:
        model.eval()
        with no_grad():
            yield
    finally:
        certainly(modes.put_back)
