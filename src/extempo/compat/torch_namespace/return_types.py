"""`torch.return_types`: the classes of results with several members, for programs that ask `isinstance`.

Where PyTorch has a class for each function, functions with the same members share one here.
"""

from __future__ import annotations

from ...ops.decompositions import EighResult as linalg_eigh
from ...ops.decompositions import QrResult as linalg_qr
from ...ops.linalg_older import OlderSvdResult as svd
from ...ops.matrices import SlogdetResult as linalg_slogdet
from ...ops.reduce import MinMax as aminmax
from ...ops.reduce import ValuesIndices
from ...ops.rounding import FrexpResult as frexp

max = min = sort = topk = kthvalue = mode = median = nanmedian = cummax = cummin = ValuesIndices
qr, slogdet = linalg_qr, linalg_slogdet
all_return_types = [aminmax, frexp, linalg_eigh, linalg_qr, linalg_slogdet, svd, ValuesIndices]
