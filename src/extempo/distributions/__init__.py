"""`ex.distributions`: probability distributions by the names of torch.distributions.

Draws come from the global random stream (`ex.manual_seed`). `sample` has no gradient; `rsample`, where `has_rsample`,
has one to the parameters. Parameters and values are checked unless `validate_args=False` or
`Distribution.set_default_validate_args(False)`.
"""

from __future__ import annotations

from ..compat.torch_modules import register_modules

# ruff: noqa: F403 - the names of distributions and transforms are stated once, in the __all__ of their modules
from ..core.absent_names import explain_absent
from ..core.public_names import publish
from . import (
    bounded,
    correlations,
    derived,
    discrete,
    exp_family,
    low_rank,
    multivariate,
    positive,
    real_line,
    relaxed,
    wishart,
)
from . import constraints as constraints
from . import kl_rules as kl_rules
from . import transforms as transforms
from . import utils as utils
from .bounded import *
from .constraint_registry import biject_to, transform_to
from .correlations import *
from .derived import *
from .discrete import *
from .distribution import Distribution
from .exp_family import *
from .kl import kl_divergence, register_kl
from .low_rank import *
from .multivariate import *
from .positive import *
from .real_line import *
from .relaxed import *
from .transforms import *
from .wishart import *

__all__ = ["Distribution", "biject_to", "kl_divergence", "register_kl", "transform_to"]
__all__ += bounded.__all__
__all__ += correlations.__all__
__all__ += derived.__all__
__all__ += discrete.__all__
__all__ += exp_family.__all__
__all__ += low_rank.__all__
__all__ += multivariate.__all__
__all__ += positive.__all__
__all__ += real_line.__all__
__all__ += relaxed.__all__
__all__ += transforms.__all__
__all__ += wishart.__all__

explain_absent(
    __name__,
    {
        "GeneralizedPareto": "not there; use Pareto, or a TransformedDistribution of Exponential",
    },
)

publish(__name__, __all__, globals())
register_modules(
    __name__,
    ExpRelaxedCategorical=relaxed.ExpRelaxedCategorical,
    LogitRelaxedBernoulli=relaxed.LogitRelaxedBernoulli,
)
