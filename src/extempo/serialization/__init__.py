"""`ex.save` and `ex.load`: tensors, containers, modules and other objects in one file, without pickle.

The file is a safetensors file: any safetensors reader finds the tensors in it, under the names that lead to them. Its
metadata holds the structure as JSON, objects as the path of their class and their attributes. `ex.load` also reads
safetensors files of others and the `.pt` files of `torch.save`; whatever a file holds, nothing in it is executed, and
classes are rebuilt only by the rule in `class_rule.py` or if `safe_globals` lists them.

    files.py            bytes in and out: atomic writing, reading by position, memory maps
    header.py           the safetensors header, written and checked
    memory.py           which tensors share memory, and tensors on shared memory
    leaves.py           values of the standard library that are plain data
    safe_names.py       safe_globals: names that users vouch for
    class_rule.py       which classes and functions a file may name
    objects.py          the state of objects, taken out and put in
    structure.py        containers, numbers and objects to JSON
    decoding.py         and back
    saving.py           save: structure, memory, header, file
    loading.py          load: which format is it, and the first of them
    torch_archive.py    the second: PyTorch's zip files
    torch_names.py      what the names in a pickle of PyTorch mean here; the rest is refused
    pickle_machine.py   the opcodes of pickle, interpreted without importing or calling anything by name

Each is loaded when it is first asked for: a program's file has no classes in it, and is read without their rooms.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ..core.absent_names import module_getattr
from .files import FILE_LIKE, FileFormatError

if TYPE_CHECKING:
    from .loading import MAP_LOCATION, load
    from .safe_names import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
    from .saving import DEFAULT_PROTOCOL, save

__all__ = [
    "DEFAULT_PROTOCOL",
    "FILE_LIKE",
    "MAP_LOCATION",
    "FileFormatError",
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "load",
    "safe_globals",
    "save",
]

_SAFE = ("add_safe_globals", "clear_safe_globals", "get_safe_globals", "safe_globals")
_HOMES = {
    **dict.fromkeys(("MAP_LOCATION", "load"), "loading"),
    **dict.fromkeys(_SAFE, "safe_names"),
    **dict.fromkeys(("DEFAULT_PROTOCOL", "save"), "saving"),
}

if not TYPE_CHECKING:  # a type checker would take every name for one that exists
    _absent = module_getattr(__name__)

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            return _absent(name)
        found = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
        return found
