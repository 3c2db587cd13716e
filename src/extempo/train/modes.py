"""Training and eval mode of a model's modules, left as they were found."""

from __future__ import annotations

from typing import Any

from ..modes import no_grad
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


class Evaluating:
    """Eval mode and no gradients, for as long as it is entered."""

    def __init__(self, model: Module) -> None:
        self._modes = Modes(model)
        self._model = model
        self._no_grad = no_grad()

    def __enter__(self) -> None:
        self._no_grad.__enter__()
        self._model.eval()

    def __exit__(self, *raised: Any) -> None:
        self._modes.put_back()
        self._no_grad.__exit__(*raised)
