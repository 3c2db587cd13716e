"""Where kernels come from. NumPy is the oracle that every other backend is tested against.

Also the switches that scripts set under `torch.backends`.
"""

from __future__ import annotations

from ..core.absent_names import explain_absent
from .flags import cuda as cuda
from .flags import cudnn as cudnn
from .flags import mkl as mkl
from .flags import mkldnn as mkldnn
from .flags import mps as mps
from .flags import openmp as openmp
from .selection import stats as stats

explain_absent(__name__)
