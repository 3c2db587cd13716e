"""Module names that exist because PyTorch has them: `from extempo.distributions.normal import Normal`.

Extempo keeps the classes of a family in one module. Here stands in which module PyTorch has each of them, and these
modules are made without a file.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType

# Package: module of PyTorch's package: what it offers.
MODULES: Mapping[str, Mapping[str, str]] = {
    "extempo.distributions": {
        "bernoulli": "Bernoulli",
        "beta": "Beta",
        "binomial": "Binomial",
        "categorical": "Categorical",
        "cauchy": "Cauchy",
        "chi2": "Chi2",
        "continuous_bernoulli": "ContinuousBernoulli",
        "dirichlet": "Dirichlet",
        "exponential": "Exponential",
        "fishersnedecor": "FisherSnedecor",
        "gamma": "Gamma",
        "geometric": "Geometric",
        "gumbel": "Gumbel",
        "half_cauchy": "HalfCauchy",
        "half_normal": "HalfNormal",
        "independent": "Independent",
        "inverse_gamma": "InverseGamma",
        "kumaraswamy": "Kumaraswamy",
        "laplace": "Laplace",
        "lkj_cholesky": "LKJCholesky",
        "log_normal": "LogNormal",
        "logistic_normal": "LogisticNormal",
        "lowrank_multivariate_normal": "LowRankMultivariateNormal",
        "mixture_same_family": "MixtureSameFamily",
        "multinomial": "Multinomial",
        "multivariate_normal": "MultivariateNormal",
        "negative_binomial": "NegativeBinomial",
        "normal": "Normal",
        "one_hot_categorical": "OneHotCategorical OneHotCategoricalStraightThrough",
        "pareto": "Pareto",
        "poisson": "Poisson",
        "relaxed_bernoulli": "LogitRelaxedBernoulli RelaxedBernoulli",
        "relaxed_categorical": "ExpRelaxedCategorical RelaxedOneHotCategorical",
        "studentT": "StudentT",
        "transformed_distribution": "TransformedDistribution",
        "uniform": "Uniform",
        "von_mises": "VonMises",
        "weibull": "Weibull",
        "wishart": "Wishart",
    },
}


def register_modules(package: str, **more: type) -> None:
    """Make the modules of a package that have no file; each offers names of the package, or those of `more`.

    A class that only such a module offers says that it is from there, so that files which name it stay readable.
    """
    offered = {**vars(sys.modules[package]), **more}
    for name, contents in MODULES[package].items():
        module = ModuleType(
            f"{package}.{name}", f"`{package}.{name}`, where PyTorch has {contents.replace(' ', ', ')}."
        )
        module.__all__ = contents.split()  # type: ignore[attr-defined] # a module may have any attribute
        for class_name in contents.split():
            setattr(module, class_name, offered[class_name])
            if class_name in more:
                offered[class_name].__module__ = module.__name__
        sys.modules[module.__name__] = module
        setattr(sys.modules[package], name, module)
