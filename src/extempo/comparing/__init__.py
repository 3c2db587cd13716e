"""`ex.compare`: what a training step costs and learns eagerly, compiled and static, and whether that can be concluded.

    step, data -> variants.py -> survey (batches.py) -> rounds (measuring.py) -> Figures -> verdicts.py -> reports.py

`states.py` finds and puts back what a step changes, `leaks.py` names what stays, `changes.py` what is other than in an
earlier comparison. Only `measuring.py` looks at a clock.
"""

from __future__ import annotations

from .calling import compare as compare
from .changes import Changes as Changes
from .reports import Comparison as Comparison
from .verdicts import Verdict as Verdict
