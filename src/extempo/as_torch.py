"""`import extempo.as_torch` on the first line of a program: `import torch` means Extempo from there on.

    import extempo.as_torch
    import torch  # Extempo, by the name that the program and its libraries know

`extempo run script.py` does the same for a program that is left as it is.
"""

from __future__ import annotations

from .compat.torch_namespace.finder import install as _install

_install()
