"""`torch.utils.model_zoo`: the older name of what `torch.hub` does with files of weights."""

from __future__ import annotations

from .hub import load_state_dict_from_url as load_url
from .hub import tqdm

__all__ = ["load_url", "tqdm"]
