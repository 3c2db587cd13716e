"""`torch.hub`: code and weights from the network are not loaded."""

from __future__ import annotations

import os
import re

from ...core.absent_names import refused

_REASON = "Extempo loads no code and no weights from the network; get the files yourself, and use torch.load"

load, help, list, download_url_to_file = (
    refused(f"torch.hub.{name}", _REASON) for name in ("load", "help", "list", "download_url_to_file")
)
load_state_dict_from_url = refused("torch.hub.load_state_dict_from_url", _REASON)

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # the hash in the name of a file of weights


def get_dir() -> str:
    """Where PyTorch would keep what it has loaded."""
    home = os.environ.get("TORCH_HOME", os.path.join(os.path.expanduser("~"), ".cache", "torch"))
    return os.path.join(home, "hub")
