"""How far a share can be trusted that was counted on so many samples."""

from __future__ import annotations

import math


def interval(n_right: float, n: float, z: float = 1.96) -> tuple[float, float]:
    """Wilson's interval of a share, 95% as a rule; (0, 1) of nothing.

    >>> low, high = ex.metrics.interval(3, 25)
    >>> round(low, 3), round(high, 3)
    (0.042, 0.3)
    """
    if not n:
        return 0.0, 1.0
    share = float(n_right) / float(n)
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, middle - half), min(1.0, middle + half)
