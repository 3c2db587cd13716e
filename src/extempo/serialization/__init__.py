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
"""

from __future__ import annotations

from ..core.absent_names import explain_absent
from .files import FILE_LIKE, FileFormatError
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

explain_absent(__name__)
