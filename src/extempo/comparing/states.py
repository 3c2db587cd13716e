"""What a training step changes: found, kept and put back, so that every mode begins with the same weights.

`find_state(step)` follows the step's closure, the globals that its code names, bound objects, their attributes and
containers, and the user's own functions among them. It collects whatever has `state_dict` and `load_state_dict`
(modules, optimizers, schedulers), and leaf tensors that require grad. Tensors of PyTorch are treated alike.
"""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from ..compat.settings import get_num_threads, set_num_threads
from ..core.code_names import codes_in, globals_of, is_library
from ..errors import UnsupportedError
from ..memory.referrers import is_tensor
from ..train.positions import random_state, restore_random_state

_DEEP = 5  # how far attributes and containers are followed
_SCALARS = (str, bytes, int, float, complex, bool, type(None), type, CodeType)


def find_state(*roots: Any) -> list[Any]:
    """Everything with a state that the roots can reach, in the order in which it was found."""
    search = _Search()
    for root in roots:
        search.visit(root, 0)
    return list(search.found.values())


class _Search:
    def __init__(self) -> None:
        self.found: dict[int, Any] = {}
        self._seen: dict[int, Any] = {}  # keeps what was visited, and so its id, alive

    def visit(self, value: Any, depth: int) -> None:
        if isinstance(value, _SCALARS) or id(value) in self._seen or depth > _DEEP:
            return
        self._seen[id(value)] = value
        if is_tensor(value):
            if value.requires_grad and value.is_leaf:
                self.found[id(value)] = value
        elif _has_state(value):
            self.found[id(value)] = value
        elif isinstance(value, FunctionType):
            self._function(value, depth)
        elif isinstance(value, MethodType):
            self.visit(value.__func__, depth)
            self._attributes(value.__self__, depth)
        elif isinstance(value, functools.partial):
            self._several((value.func, *value.args, *value.keywords.values()), depth)
        elif isinstance(value, dict):
            self._several(value.values(), depth)
        elif isinstance(value, list | tuple | set):
            self._several(value, depth)
        elif not isinstance(value, ModuleType) and not is_library(type(value).__module__):
            self._attributes(value, depth)
        elif hasattr(value, "__wrapped__"):
            self.visit(value.__wrapped__, depth)

    def _several(self, values: Iterable[Any], depth: int) -> None:
        for value in list(values):
            self.visit(value, depth + 1)

    def _attributes(self, value: Any, depth: int) -> None:
        if _has_state(value):
            self.visit(value, depth)
            return
        if callable(value) and isinstance(type(value).__call__, FunctionType):
            self.visit(type(value).__call__, depth)
        held = getattr(value, "__dict__", None)
        if isinstance(held, dict):
            self._several(held.values(), depth)

    def _function(self, fn: FunctionType, depth: int) -> None:
        for cell in fn.__closure__ or ():
            try:
                self.visit(cell.cell_contents, depth)
            except ValueError:  # not assigned yet
                continue
        self._several((fn.__defaults__, fn.__kwdefaults__), depth)
        if is_library(fn.__globals__.get("__name__")):
            return
        for name, attribute in sorted(_globals_of(fn)):
            value = fn.__globals__.get(name)
            if isinstance(value, ModuleType) and not is_library(value.__name__):
                value = vars(value).get(attribute)
            self.visit(value, depth)


def _globals_of(fn: FunctionType) -> set[tuple[str, str]]:
    """The global names that a function reads, each with the attribute that it is asked for at once, or ""."""
    found = [each for code in codes_in(fn.__code__) for each in globals_of(code)]
    return {(name, attributes[0] if attributes else "") for name, attributes in found}


def _has_state(value: Any) -> bool:
    return all(callable(getattr(value, name, None)) for name in ("state_dict", "load_state_dict"))


def is_torch(value: Any, name: str) -> bool:
    """Whether it is of this class of PyTorch, which is not loaded for the question."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, name))


class Snapshot:
    """The state as it was."""

    def __init__(self, state: State) -> None:
        self.tensors = [(t, t.detach().clone(), _grad_of(t)) for t in state.tensors()]
        self.training = [(m, m.training) for m in state.modules()]
        self.dicts = [(x, copy.deepcopy(x.state_dict())) for x in state.others]
        self.random = random_state()
        self.n_threads = get_num_threads()
        torch = sys.modules.get("torch")
        self.torch_random = None if torch is None else torch.get_rng_state()
        self.n_torch_threads = None if torch is None else torch.get_num_threads()


class State:
    """The objects that a step changes."""

    def __init__(self, found: Iterable[Any]) -> None:
        found = list(found)
        self._modules = [x for x in found if hasattr(x, "named_modules")]
        self._loose = [x for x in found if is_tensor(x)]
        self.others = [x for x in found if not hasattr(x, "named_modules") and not is_tensor(x)]

    def __bool__(self) -> bool:
        return bool(self._modules or self._loose or self.others)

    def modules(self) -> list[Any]:
        """All modules, with those inside others."""
        return list({id(m): m for top in self._modules for m in top.modules()}.values())

    def parameters(self) -> list[Any]:
        """What is trained, each once: of modules, of optimizers, and alone."""
        owned = [p for m in self._modules for p in m.parameters()]
        groups = [p for x in self.others for g in getattr(x, "param_groups", ()) for p in g["params"]]
        return list({id(p): p for p in (*owned, *groups, *self._loose) if p.requires_grad}.values())

    def values(self) -> list[Any]:
        """What the parameters are now, copied."""
        return [p.detach().clone() for p in self.parameters()]

    def named_parameters(self) -> dict[str, Any]:
        """The parameters of modules by name; names that two modules share are numbered."""
        named: dict[str, Any] = {}
        for i, m in enumerate(self._modules):
            for name, p in m.named_parameters():
                named[f"{i}.{name}"] = p
        return named

    def tensors(self) -> list[Any]:
        """All tensors that are put back by value."""
        held = [t for m in self._modules for t in (*m.parameters(), *m.buffers())]
        return list({id(t): t for t in (*held, *self.parameters())}.values())

    def take(self) -> Snapshot:
        return Snapshot(self)

    def put(self, kept: Snapshot) -> None:
        """Make everything as it was when the snapshot was taken."""
        now = {id(t): tuple(t.shape) for t in self.tensors()}
        if now != {id(t): tuple(value.shape) for t, value, _ in kept.tensors}:
            raise UnsupportedError(
                "compare: the step has changed which parameters there are, or their shapes, so that a round cannot "
                "begin with the same weights; compare a step that leaves the structure of its model alone"
            )
        for t, value, grad in kept.tensors:
            t.detach().copy_(value)
            if t.is_leaf:
                t.grad = None if grad is None else grad.clone()
        for m, training in kept.training:
            m.training = training
        for x, state in kept.dicts:
            _put_dict(x, state)
        restore_random_state(kept.random)
        if get_num_threads() != kept.n_threads:
            set_num_threads(kept.n_threads)
        if kept.torch_random is not None:
            torch = sys.modules["torch"]
            torch.set_rng_state(kept.torch_random)
            if torch.get_num_threads() != kept.n_torch_threads:
                torch.set_num_threads(kept.n_torch_threads)


def _grad_of(t: Any) -> Any:
    return t.grad.detach().clone() if t.is_leaf and t.grad is not None else None


def _put_dict(x: Any, saved: dict[str, Any]) -> None:
    """In place where the state has the same form: loading makes an optimizer lay its memory out anew, step by step."""
    groups = getattr(x, "param_groups", None)
    now = x.state_dict()
    if groups is None or len(groups) != len(saved["param_groups"]) or not _alike(now["state"], saved["state"]):
        x.load_state_dict(copy.deepcopy(saved))
        return
    _fill(now["state"], saved["state"])
    for group, options in zip(groups, saved["param_groups"], strict=True):
        group.update({k: copy.deepcopy(v) for k, v in options.items() if k not in ("params", "param_names")})


def _alike(now: Any, saved: Any) -> bool:
    if isinstance(saved, dict):
        return isinstance(now, dict) and now.keys() == saved.keys() and all(_alike(now[k], saved[k]) for k in saved)
    if is_tensor(saved):
        return is_tensor(now) and now.shape == saved.shape and now.dtype == saved.dtype
    return type(now) is type(saved) and isinstance(saved, int | float | bool | type(None))


def _fill(now: dict[Any, Any], saved: dict[Any, Any]) -> None:
    for key, value in saved.items():
        if isinstance(value, dict):
            _fill(now[key], value)
        elif is_tensor(value):
            now[key].detach().copy_(value)
        else:
            now[key] = value


def unwrapped(step: Callable[..., Any]) -> Callable[..., Any]:
    """The function as it was written, if `ex.compile` has wrapped it."""
    while getattr(step, "__globals__", {}).get("__name__") == "extempo.tracing.api" and hasattr(step, "__wrapped__"):
        step = step.__wrapped__
    return step
