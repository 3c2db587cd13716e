"""`ex.optim`: optimizers and learning-rate schedules, with PyTorch's names, options, state and numbers.

The update of a group is one pass over flat memory, whatever `foreach=` and `fused=` say; `capturable=` is accepted and
has no meaning on a CPU. With `differentiable=True` gradients flow through the step.
"""

from __future__ import annotations

from ..core.absent_names import explain_absent
from ..core.public_names import publish
from . import lr_scheduler as lr_scheduler
from . import optimizer as optimizer
from . import swa_utils as swa_utils
from .adam import Adam, Adamax, AdamW, NAdam, RAdam
from .adaptive import Adadelta, Adagrad, RMSprop, Rprop
from .lbfgs import LBFGS
from .matrices import Adafactor, Muon
from .optimizer import Optimizer
from .sgd import ASGD, SGD

__all__ = [
    "ASGD", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon", "NAdam", "Optimizer",
    "RAdam", "RMSprop", "Rprop", "lr_scheduler", "swa_utils",
]  # fmt: skip

publish(__name__, __all__, globals())

explain_absent(
    __name__,
    {"SparseAdam": "sparse gradients are not part of Extempo; use Adam, which updates a whole table in one pass"},
)
