"""`torch.compiler` and `torch._dynamo`: `torch.compile` breaks no graphs here, so there is nothing to steer."""

from __future__ import annotations

from contextlib import ContextDecorator
from types import SimpleNamespace
from typing import Any, TypeVar

from ...core.absent_names import refused
from ...tracing.api import compile, eager

_F = TypeVar("_F")

OptimizedModule = refused(
    "torch._dynamo.OptimizedModule", "a compiled module stays of its own class; there is nothing to unwrap"
)
config = SimpleNamespace()  # settings may be set; none is read


def is_compiling() -> bool:
    """The Python of a compiled function runs at every call, as it does without."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def allow_in_graph(fn: _F) -> _F:
    """The function itself."""
    return fn


assume_constant_result = nested_compile_region = allow_in_graph


def substitute_in_graph(original_fn: Any, **kwargs: Any) -> Any:
    """A decorator that hands its function back: the original runs as it is."""
    return allow_in_graph


class set_stance(ContextDecorator):  # PyTorch's name
    """How torch.compile would behave from here on, or in a block: there is one way. "force_eager" is `ex.eager()`."""

    def __init__(self, stance: str = "default", **kwargs: Any) -> None:
        self.stance = stance

    def __enter__(self) -> set_stance:
        return self

    def __exit__(self, *error: Any) -> None:
        pass


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """None to choose from."""
    return []


def set_default_backend(backend: Any) -> None:
    """There is one."""


set_enable_guard_collectives = set_default_backend


def save_cache_artifacts() -> None:
    """None: kernels are kept on disk by themselves (`extempo cache info`)."""


def load_cache_artifacts(serialized_artifacts: bytes) -> None:
    """None: kernels are kept on disk by themselves (`extempo cache info`)."""


def disable(fn: Any = None, recursive: bool = True, **kwargs: Any) -> Any:
    """A function that runs eagerly wherever it is called; also as `@disable()`."""
    return eager(fn) if fn is not None else eager


def reset() -> None:
    """Forget what was compiled."""
    compile.clear()


def mark_dynamic(tensor: Any, index: Any, **kwargs: Any) -> None:
    """Every size may change."""


maybe_mark_dynamic = mark_static = mark_static_address = mark_dynamic


def cudagraph_mark_step_begin() -> None:
    """There is no GPU."""
