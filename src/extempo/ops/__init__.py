"""The operations, by family. Each module's `__all__` is what users see; the rest serves gradients here."""

from __future__ import annotations

from .. import types as types
from .arithmetic import *
from .arithmetic import zero as zero
from .comparison import *
from .convert import *
from .convert import broadcastable as broadcastable
from .creation import *
from .define import deliver as deliver
from .index import *
from .matmul import *
from .reduce import *
from .softmax import *
from .softmax import softmin as softmin
from .transcendental import *
from .view import *
