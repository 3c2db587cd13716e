"""The op modules with public functions, and so the names of `extempo` that are ops: what each module's `__all__` has.

This is the one list of them; `ops` and `extempo` take all that is here. A new family is a line.
"""

# ruff: noqa: F403  # the names are stated once, in the __all__ of the module that defines them

from .activation import *
from .arithmetic import *
from .arrange import *
from .bessel import *
from .choice import *
from .comparison import *
from .contraction import *
from .conv import *
from .convert import *
from .counting import *
from .creation import *
from .diagonals import *
from .differences import *
from .division import *
from .dropouts import *
from .error_functions import *
from .factories import *
from .factors import *
from .gamma_functions import *
from .grid_sampling import *
from .index import *
from .join import *
from .limits import *
from .linalg_older import *
from .loss import *
from .matrices import *
from .normalization import *
from .norms import *
from .padding import *
from .pool import *
from .powers import *
from .products import *
from .properties import *
from .ranges import *
from .reduce import *
from .rounding import *
from .sampling import *
from .scan import *
from .scattering import *
from .shaping import *
from .softmaxes import *
from .sorting import *
from .splitting import *
from .statistics import *
from .systems import *
from .toplevel import *
from .transcendental import *
from .view import *
