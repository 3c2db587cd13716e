"""`torch.hub`: nothing comes from the network; files of weights that are in its folder already are read."""

from __future__ import annotations

import importlib
import os
import re
from typing import Any
from urllib.parse import urlparse

from ...core.absent_names import RefusedName, refused
from ...serialization import load as _load_file

_REASON = "Extempo loads no code and no weights from the network; get the files yourself, and use torch.load"

load, help, list, download_url_to_file = (
    refused(f"torch.hub.{name}", _REASON) for name in ("load", "help", "list", "download_url_to_file")
)

try:
    tqdm = importlib.import_module("tqdm").tqdm  # torchvision takes it from here
except ImportError:

    def tqdm(iterable: Any = None, **kwargs: Any) -> Any:
        """No bar."""
        return iterable


HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # the hash in the name of a file of weights
_chosen_dir: str | None = None


def _get_torch_home() -> str:
    """The folder of PyTorch's caches."""
    cache = os.environ.get("XDG_CACHE_HOME", os.path.join("~", ".cache"))
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """Where PyTorch keeps what it has loaded."""
    return _chosen_dir if _chosen_dir is not None else os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Another folder than PyTorch's."""
    global _chosen_dir
    _chosen_dir = os.path.expanduser(d)


def load_state_dict_from_url(
    url: str, model_dir: str | None = None, map_location: Any = None, progress: bool = True, *args: Any, **kwargs: Any
) -> Any:
    """The weights of this address, from the file that PyTorch would keep of them."""
    name = kwargs.get("file_name") or os.path.basename(urlparse(url).path)
    path = os.path.join(model_dir or os.path.join(get_dir(), "checkpoints"), name)
    if not os.path.exists(path):
        raise RefusedName(
            f"torch.hub.load_state_dict_from_url: Extempo loads nothing from the network; put {url} at {path} yourself"
        )
    return _load_file(path, map_location=map_location, weights_only=True)
