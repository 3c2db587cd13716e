"""Memory of tensors: who allocated it, what was alive at the peak, and who keeps graphs alive."""

from __future__ import annotations

from ..core.absent_names import explain_absent
from ..core.public_names import publish
from .holding import Holder, Holders, holders
from .tracking import Allocation, Peak, Tracked, track

__all__ = ["Allocation", "Holder", "Holders", "Peak", "Tracked", "holders", "track"]

publish(__name__, __all__, globals())

explain_absent(__name__)
