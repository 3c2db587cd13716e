"""`torch.serialization`: `pickle`, which programs take from there, and parts of its reader, which are refused."""

from __future__ import annotations

import pickle as pickle

from ...core.absent_names import refused

normalize_storage_type = refused("torch.serialization.normalize_storage_type", "use torch.load(..., mmap=True)")
