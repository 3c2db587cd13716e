"""`ex.save` and `ex.load`: tensors and plain containers in one file, without pickle.

The file is a safetensors file: any safetensors reader finds the tensors in it, under the names that lead to them. Its
metadata holds the structure as JSON. `ex.load` also reads safetensors files of others and the `.pt` files of
`torch.save`; whatever a file holds, nothing in it is executed.

    files.py            bytes in and out: atomic writing, reading by position, memory maps
    header.py           the safetensors header, written and checked
    memory.py           which tensors share memory, and tensors on shared memory
    structure.py        containers and numbers to JSON and back
    saving.py           save: structure, memory, header, file
    loading.py          load: which format is it, and the first of them
    torch_archive.py    the second: PyTorch's zip files
    torch_names.py      what the names in a pickle of PyTorch mean here; the rest is refused
    pickle_machine.py   the opcodes of pickle, interpreted without importing or calling anything by name
"""

from __future__ import annotations

from ..core.absent_names import explain_absent
from .files import FileFormatError
from .loading import load
from .saving import save

__all__ = ["FileFormatError", "load", "save"]

explain_absent(__name__)
