"""`torch.serialization`: the module that programs take for its `pickle`, which Extempo does not call."""

from __future__ import annotations

import pickle as pickle
