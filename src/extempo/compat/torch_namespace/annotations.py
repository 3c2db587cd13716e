"""What models themselves have from `torch.profiler`: names for stretches of code. Its `profile` is refused."""

from __future__ import annotations

from .profiler import EventList as EventList
from .profiler import record_function as record_function
