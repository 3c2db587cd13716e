"""`ex.distributions.transforms`: maps between the sets that distributions live on."""

# ruff: noqa: F403 - the names are stated once, in the __all__ of the module that defines them
from ...core.absent_names import explain_absent
from . import base, elementwise, multivariate, parts
from .base import *
from .elementwise import *
from .elementwise import clipped_sigmoid as _clipped_sigmoid  # noqa: F401 - by the name that libraries know
from .multivariate import *
from .parts import *

__all__: list[str] = []
__all__ += base.__all__
__all__ += elementwise.__all__
__all__ += multivariate.__all__
__all__ += parts.__all__

explain_absent(__name__)
