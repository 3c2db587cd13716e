"""`torch.utils.tensorboard`: scalars go into event files; what else is logged is left out, and that is said once."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

__all__ = ["SummaryWriter"]


class SummaryWriter:
    """Writes scalars for TensorBoard into `log_dir`."""

    def __init__(self, log_dir: str | Path | None = None, comment: str = "", **kwargs: Any) -> None:
        from ...train.tensorboard import EventWriter

        self.log_dir = str(log_dir) if log_dir else str(Path("runs") / f"{time.strftime('%b%d_%H-%M-%S')}{comment}")
        self._events = EventWriter(self.log_dir)
        self._left_out: set[str] = set()

    def add_scalar(self, tag: str, scalar_value: Any, global_step: int | None = None, **kwargs: Any) -> None:
        """One point of the curve `tag`."""
        self._events.scalar(tag, float(scalar_value), global_step or 0)

    def add_scalars(self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: int | None = None) -> None:
        """One point of each of several curves."""
        for name, value in tag_scalar_dict.items():
            self.add_scalar(f"{main_tag}/{name}", value, global_step)

    def flush(self) -> None:
        self._events.flush()

    def close(self) -> None:
        self._events.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("add_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

        def leave_out(*args: Any, **kwargs: Any) -> None:
            if name not in self._left_out:
                self._left_out.add(name)
                warnings.warn(f"SummaryWriter.{name}: Extempo writes scalars only; it is left out", stacklevel=2)

        return leave_out
