"""Programs by name and version, each with a lane of the engine.

`name=path` is version 1 of a model, `name:2=path` version 2; the highest version is the one that is asked by name
alone. `reload` reads the files anew: the new program is tried first, then takes over, and the old one finishes what it
has accepted. A file that cannot be read leaves the model as it was.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core.graph import type_text
from ..core.storage import Array
from ..core.tensor import Tensor, from_array
from ..errors import ArgumentError, ExtempoError
from ..exporting.files import load_program
from ..exporting.folding import fold_constants
from ..exporting.program import Program
from .engine import Engine, Lane
from .metrics import Metrics
from .refusals import BadRequest
from .runners import OneByOne, OpenRunner, Runner, function_of, may_go_on_for_ever
from .settings import Limits

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TRIED = (1, 2)  # samples at a time that a program is tried on before it serves: by itself, and as a batch
_LONGEST_TRIAL = 2.0  # seconds; values decide how long some programs run, and these may mean for ever


class Model:
    """One version of one model: a program that serves."""

    def __init__(self, name: str, version: int, path: Path | None, program: Program, lane: Lane) -> None:
        self.name = name
        self.version = version
        self.path = path
        self.program = program
        self.lane = lane
        self.loaded_at = time.time()

    @property
    def inputs(self) -> list[Any]:
        return self.program.inputs

    @property
    def outputs(self) -> list[str]:
        return [*self.program.outputs, *self.program.state]

    def tensors(self, sample: dict[str, Array]) -> list[Tensor]:
        """The inputs of one sample in order; one that does not fit the program is refused before it can wait."""
        tensors = [from_array(sample[spec.name]) for spec in self.inputs]
        try:
            self.program._sizes(tensors, True)
        except ExtempoError as error:
            raise BadRequest(422, str(error)) from None
        return tensors

    def described(self) -> dict[str, Any]:
        """What goes in and comes out."""
        nodes = zip(self.outputs, self.program.graph.outputs, strict=True)
        sizes = {name: [d.min, None if d.max == float("inf") else d.max] for name, d in self.program.dims.items()}
        return {
            "name": self.name,
            "version": self.version,
            "inputs": {spec.name: type_text(spec.type) for spec in self.inputs},
            "outputs": {name: type_text(node.type) for name, node in nodes},
            "sizes": sizes,
        }


class Models:
    """All models of a server."""

    def __init__(self, engine: Engine, metrics: Metrics) -> None:
        self._engine = engine
        self._metrics = metrics
        self._versions: dict[str, dict[int, Model]] = {}
        self.is_ready = False  # every model has been tried

    def add(self, name: str, version: int, source: Path | Program) -> Model:
        """One more model, from a file or as it is."""
        if not _NAME.fullmatch(name):
            raise ArgumentError(f"serve: a model's name has letters, digits, '.', '_' and '-' only, got {name!r}")
        if version in self._versions.get(name, ()):
            raise ArgumentError(f"serve: there are two models {name}:{version}; number them, NAME:1=FILE NAME:2=FILE")
        model = self._made(name, version, source)
        self._versions.setdefault(name, {})[version] = model
        return model

    def _made(self, name: str, version: int, source: Path | Program) -> Model:
        path = source if isinstance(source, Path) else None
        program = fold_constants(load_program(str(source)) if isinstance(source, Path) else source)
        lane = self._engine.open_lane(name, runner_of(program, self._engine.limits))
        return Model(name, version, path, program, lane)

    def find(self, name: str | None = None, version: int | None = None) -> Model:
        """The model that a request asks for; by default the only one, or the first."""
        if name is None:
            name = next(iter(self._versions))
        versions = self._versions.get(name)
        if versions is None:
            raise BadRequest(404, f"there is no model {name!r}; there are {', '.join(self._versions)}")
        if version is None:
            return versions[max(versions)]
        if version not in versions:
            raise BadRequest(404, f"{name!r} has no version {version}; it has {', '.join(map(str, sorted(versions)))}")
        return versions[version]

    def all(self) -> list[Model]:
        return [versions[v] for versions in self._versions.values() for v in sorted(versions)]

    def try_all(self) -> None:
        """Run every model once, so that its code is compiled when the first request comes."""
        for model in self.all():
            self.try_out(model)
        self.is_ready = True

    def try_out(self, model: Model) -> None:
        """Run a model on examples of small sizes. That it refuses those says nothing of it."""
        for n in _TRIED:
            try:
                tensors = [model.tensors(example(model.program)) for _ in range(n)]
                for ticket in self._engine.submit(model.lane, tensors, _LONGEST_TRIAL):
                    ticket.future.result()
            except Exception:
                return

    def reload(self, name: str | None = None) -> list[Model]:
        """Read the files of a model, or of all, anew. BadRequest: one could not be read, and all stay as they were."""
        old = [m for m in self.all() if m.path is not None and name in (None, m.name)]
        if not old:
            raise BadRequest(404, f"there is no model {name!r} that was read from a file")
        new: list[Model] = []
        try:
            for model in old:
                assert model.path is not None
                new.append(self._made(model.name, model.version, model.path))
        except (ExtempoError, OSError, ValueError) as error:
            for model in new:
                self._engine.leave(model.lane)
            self._metrics.reloads.add(old[len(new)].name, "failed")
            raise BadRequest(409, f"{old[len(new)].name} stays as it was: {error}") from None
        for before, after in zip(old, new, strict=True):
            self.try_out(after)
            self._versions[after.name][after.version] = after
            self._engine.leave(before.lane)
            self._metrics.reloads.add(after.name, "done")
        return new


def runner_of(program: Program, limits: Limits) -> Runner:
    """How a program runs: by samples that come and go, or, if batches have one sample, one after the other.

    One that may go on for ever runs in steps in any case, between which it can be ended.
    """
    function, is_endless = function_of(program), may_go_on_for_ever(program)
    if limits.max_batch == 1 and not is_endless:
        return OneByOne(function)
    return OpenRunner(function, limits.max_batch, not is_endless)


def example(program: Program) -> dict[str, Array]:
    """Ones, and zeros where there are indices, of small sizes where sizes are open."""
    sizes = {name: int(min(max(dim.min, 3), dim.max)) for name, dim in program.dims.items()}
    made = {}
    for spec in program.inputs:
        shape = [n if isinstance(n, int) else sizes.get(str(n), 3) for n in spec.type.shape]
        made[spec.name] = np.full(shape, int(spec.type.dtype.is_floating_point), spec.type.dtype.numpy)
    return made


def parse_model(text: str) -> tuple[str, int, Path]:
    """`name=path`, `name:2=path`, or a path, whose file's name is the model's."""
    name, equals, path = text.partition("=")
    if not equals:
        return re.sub(r"[^A-Za-z0-9._-]", "_", Path(text).stem), 1, Path(text)
    name, colon, version = name.partition(":")
    if colon and not (version.isascii() and version.isdigit() and len(version) <= 9):
        raise ArgumentError(f"serve: expected NAME:VERSION=FILE with a whole number as version, got {text!r}")
    return name, int(version) if colon else 1, Path(os.path.expanduser(path))


def parse_models(texts: Sequence[str]) -> list[tuple[str, int, Path]]:
    found = [parse_model(text) for text in texts]
    if not found:
        raise ArgumentError("serve: name at least one file of program.save")
    return found
