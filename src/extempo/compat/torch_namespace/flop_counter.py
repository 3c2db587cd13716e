"""`torch.utils.flop_counter`: a counter can be made and asked, as trainers do at every start. Counting is refused."""

from __future__ import annotations

from typing import Any, NoReturn

from ...core.absent_names import RefusedName


class FlopCounterMode:
    """A counter that has counted nothing: what would be counted inside its block is refused."""

    def __init__(self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: Any = None) -> None:
        self.depth = depth

    def __enter__(self) -> NoReturn:
        raise RefusedName("torch.utils.flop_counter.FlopCounterMode: ops are not counted; use ex.inspect.summary")

    def __exit__(self, *error: Any) -> None:
        """It never began."""

    def get_total_flops(self) -> int:
        """None were counted."""
        return 0

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Those of the whole, of which there are none."""
        return {"Global": {}}
