"""The operations, by family. Each module's `__all__` is what users see; the rest serves gradients here."""

from __future__ import annotations

from .. import types as types
from .activation import *
from .arithmetic import *
from .arithmetic import zero as zero
from .arrange import *
from .comparison import *
from .conv import *
from .convert import *
from .convert import broadcastable as broadcastable
from .counting import *
from .creation import *
from .define import deliver as deliver
from .differences import *
from .index import *
from .join import *
from .matmul import *
from .pool import *
from .reduce import *
from .resample import *
from .rounding import *
from .scan import *
from .scan import product_before as product_before
from .scatter import *
from .sampling import *
from .shaping import *
from .softmax import *
from .softmax import softmin as softmin
from .sorting import *
from .special import *
from .statistics import *
from .transcendental import *
from .view import *
