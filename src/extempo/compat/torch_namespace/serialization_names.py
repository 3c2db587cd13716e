"""`torch.serialization`: `pickle`, which programs take from there, settings of PyTorch's files, parts of its reader.

A setting is kept and has no effect: Extempo's files have one byte order and their own checks.
"""

from __future__ import annotations

import enum
import pickle as pickle
from collections.abc import Callable
from tempfile import mkdtemp as mkdtemp
from typing import Any

from ...core.absent_names import refused

normalize_storage_type = refused("torch.serialization.normalize_storage_type", "use torch.load(..., mmap=True)")


class LoadEndianness(enum.Enum):
    """The byte order that a file without a mark is read in."""

    NATIVE, LITTLE, BIG = 1, 2, 3


class SourceChangeWarning(Warning):
    """PyTorch's warning that the source of a saved class differs; no file of Extempo's has source."""


def _setting(value: Any) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    kept = [value]

    def get() -> Any:
        """What was set."""
        return kept[0]

    def put(value: Any) -> None:
        """Keep it; it has no effect."""
        kept[0] = value

    return get, put


get_default_load_endianness, set_default_load_endianness = _setting(None)
get_crc32_options, set_crc32_options = _setting(True)
get_default_mmap_options, set_default_mmap_options = _setting(2)  # a private map of the file


def location_tag(storage: Any) -> str:
    """Where everything is."""
    return "cpu"


def default_restore_location(storage: Any, location: str) -> Any:
    """The storage, where it is."""
    return storage


def check_module_version_greater_or_equal(
    module: Any, req_version_tuple: tuple[int, ...], error_if_malformed: bool = True
) -> bool:
    """Whether `module.__version__` is at least that."""
    found = tuple(int(part) for part in module.__version__.split(".")[: len(req_version_tuple)])
    return found >= req_version_tuple
