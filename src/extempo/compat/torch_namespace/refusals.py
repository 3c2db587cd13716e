"""What can be imported, asked about and subclassed, and says why it is refused when it is called or instantiated."""

from __future__ import annotations

from typing import Any, NoReturn

from ..refused import RefusedName


class RefusedType(type):
    """The class of classes that refuse: `isinstance` and subclassing work, since libraries do both while they load."""

    refusal: str

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise RefusedName(cls.refusal, cls.__name__)

    def __getattr__(cls, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}", name=name, obj=cls)
        raise RefusedName(cls.refusal, name)


def refused(path: str, reason: str) -> RefusedType:
    """Stands for the function or class `path` of PyTorch."""
    module, _, name = path.rpartition(".")
    contents = {"__module__": module, "__doc__": reason, "refusal": f"{path}: {reason}"}
    return RefusedType(name, (), contents)
