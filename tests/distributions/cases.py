"""One or two instances of every distribution, as (class, arguments) that Extempo and PyTorch both take.

Arrays stand for tensors; a pair (class, arguments) among the arguments stands for a distribution.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import extempo as ex

A = np.array

POSITIVE, OTHER_POSITIVE = A([0.4, 1.7, 3.2]), A([2.5, 0.6, 1.1])
REAL, OTHER_REAL = A([-1.3, 0.2, 2.1]), A([0.5, -0.7, 1.4])
PROBS, OTHER_PROBS = A([0.2, 0.55, 0.9]), A([0.7, 0.35, 0.6])
SIMPLEX, OTHER_SIMPLEX = A([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]]), A([[0.3, 0.3, 0.4], [0.1, 0.2, 0.7]])
LOGITS = A([[0.3, -1.2, 0.8], [2.0, 0.1, -0.4]])
COVARIANCE, OTHER_COVARIANCE = A([[2.0, 0.5], [0.5, 1.0]]), A([[[1.0, -0.3], [-0.3, 1.5]], [[0.7, 0.1], [0.1, 0.4]]])
VECTORS = A([[0.3, -0.8], [1.1, 0.4]])

CASES: list[tuple[str, dict[str, Any]]] = [
    ("Bernoulli", {"probs": PROBS}),
    ("Bernoulli", {"logits": REAL}),
    ("Beta", {"concentration1": POSITIVE, "concentration0": OTHER_POSITIVE}),
    ("Beta", {"concentration1": 2.5, "concentration0": POSITIVE}),
    ("Binomial", {"total_count": 7, "probs": PROBS}),
    ("Binomial", {"total_count": 7, "logits": REAL}),
    ("Categorical", {"probs": SIMPLEX}),
    ("Categorical", {"logits": LOGITS}),
    ("Cauchy", {"loc": REAL, "scale": POSITIVE}),
    ("Cauchy", {"loc": OTHER_REAL, "scale": OTHER_POSITIVE}),
    ("Chi2", {"df": POSITIVE}),
    ("ContinuousBernoulli", {"probs": A([0.2, 0.4995, 0.9])}),
    ("ContinuousBernoulli", {"logits": REAL}),
    ("Dirichlet", {"concentration": A([[0.5, 1.5, 3.0], [2.0, 2.0, 2.0]])}),
    ("Dirichlet", {"concentration": A([[1.5, 1.5, 0.3], [1.0, 2.0, 4.0]])}),
    ("Exponential", {"rate": POSITIVE}),
    ("Exponential", {"rate": OTHER_POSITIVE}),
    ("FisherSnedecor", {"df1": A([1.5, 3.0, 5.0]), "df2": A([2.5, 5.0, 1.0])}),
    ("Gamma", {"concentration": POSITIVE, "rate": OTHER_POSITIVE}),
    ("Gamma", {"concentration": OTHER_POSITIVE, "rate": POSITIVE}),
    ("Geometric", {"probs": PROBS}),
    ("Geometric", {"logits": REAL}),
    ("Gumbel", {"loc": REAL, "scale": POSITIVE}),
    ("Gumbel", {"loc": OTHER_REAL, "scale": OTHER_POSITIVE}),
    ("HalfCauchy", {"scale": POSITIVE}),
    ("HalfNormal", {"scale": POSITIVE}),
    ("HalfNormal", {"scale": OTHER_POSITIVE}),
    (
        "Independent",
        {"base_distribution": ("Normal", {"loc": VECTORS, "scale": A(0.7)}), "reinterpreted_batch_ndims": 1},
    ),
    (
        "Independent",
        {"base_distribution": ("Normal", {"loc": LOGITS[:, :2], "scale": A(1.7)}), "reinterpreted_batch_ndims": 1},
    ),
    ("InverseGamma", {"concentration": POSITIVE, "rate": OTHER_POSITIVE}),
    ("Kumaraswamy", {"concentration1": POSITIVE, "concentration0": OTHER_POSITIVE}),
    ("Laplace", {"loc": REAL, "scale": POSITIVE}),
    ("Laplace", {"loc": OTHER_REAL, "scale": OTHER_POSITIVE}),
    ("LogNormal", {"loc": REAL, "scale": POSITIVE}),
    ("LogNormal", {"loc": OTHER_REAL, "scale": OTHER_POSITIVE}),
    ("LogisticNormal", {"loc": VECTORS, "scale": A([0.4, 1.2])}),
    (
        "MixtureSameFamily",
        {
            "mixture_distribution": ("Categorical", {"probs": SIMPLEX}),
            "component_distribution": ("Normal", {"loc": LOGITS, "scale": A(0.8)}),
        },
    ),
    ("LKJCholesky", {"dim": 3, "concentration": A([0.7, 2.5])}),
    ("LKJCholesky", {"dim": 2, "concentration": 1.0}),
    ("LowRankMultivariateNormal", {"loc": VECTORS, "cov_factor": A([[0.7], [-0.4]]), "cov_diag": A([0.5, 1.2])}),
    (
        "LowRankMultivariateNormal",
        {"loc": VECTORS[0], "cov_factor": A([[0.2, 1.1], [0.5, -0.3]]), "cov_diag": A([[0.9, 0.4], [2.0, 0.3]])},
    ),
    ("Multinomial", {"total_count": 5, "probs": SIMPLEX}),
    ("Multinomial", {"total_count": 5, "logits": LOGITS}),
    ("MultivariateNormal", {"loc": VECTORS, "covariance_matrix": COVARIANCE}),
    ("MultivariateNormal", {"loc": VECTORS[0], "covariance_matrix": OTHER_COVARIANCE}),
    ("MultivariateNormal", {"loc": VECTORS, "precision_matrix": OTHER_COVARIANCE}),
    ("MultivariateNormal", {"loc": VECTORS[1], "scale_tril": A([[1.2, 0.0], [-0.4, 0.6]])}),
    ("NegativeBinomial", {"total_count": 4.0, "probs": PROBS}),
    ("NegativeBinomial", {"total_count": A([1.5, 3.0, 6.0]), "logits": REAL}),
    ("Normal", {"loc": REAL, "scale": POSITIVE}),
    ("Normal", {"loc": OTHER_REAL, "scale": OTHER_POSITIVE}),
    ("OneHotCategorical", {"probs": SIMPLEX}),
    ("OneHotCategorical", {"logits": LOGITS}),
    ("OneHotCategoricalStraightThrough", {"probs": OTHER_SIMPLEX}),
    ("Pareto", {"scale": A([0.4, 1.7, 0.2]), "alpha": A([0.5, 1.5, 2.5])}),
    ("Pareto", {"scale": A([1.4, 0.7, 0.1]), "alpha": A([2.5, 1.5, 3.5])}),
    ("Poisson", {"rate": POSITIVE}),
    ("Poisson", {"rate": OTHER_POSITIVE}),
    ("RelaxedBernoulli", {"temperature": A(0.6), "probs": PROBS}),
    ("RelaxedOneHotCategorical", {"temperature": A(0.6), "logits": LOGITS}),
    ("StudentT", {"df": POSITIVE, "loc": REAL, "scale": OTHER_POSITIVE}),
    ("Uniform", {"low": A([-0.5, 0.1, 0.3]), "high": A([0.4, 0.9, 2.5])}),
    ("Uniform", {"low": A([-2.0, 0.2, 0.35]), "high": A([3.0, 0.95, 2.0])}),
    ("Uniform", {"low": A([-2.0, -0.5, -0.1]), "high": A([3.0, 1.5, 0.7])}),
    ("VonMises", {"loc": REAL, "concentration": POSITIVE}),
    ("Weibull", {"scale": POSITIVE, "concentration": OTHER_POSITIVE}),
    ("Weibull", {"scale": OTHER_POSITIVE, "concentration": A([1.5, 2.0, 0.8])}),
    ("Wishart", {"df": A([2.5, 6.0]), "covariance_matrix": COVARIANCE}),
    ("Wishart", {"df": A(4.0), "precision_matrix": OTHER_COVARIANCE}),
]


def names() -> list[str]:
    """One name for each case, numbered where a class has several."""
    found: list[str] = []
    for name, _ in CASES:
        found.append(f"{name}-{sum(n.startswith(name + '-') for n in found)}")
    return found


NUMBERED = list(zip(names(), CASES, strict=True))


def build(library: Any, name: str, arguments: dict[str, Any], requires_grad: bool = True) -> tuple[Any, list[Any]]:
    """The distribution in Extempo or PyTorch, and its parameters as leaves in float64."""
    leaves: list[Any] = []

    def convert(value: Any) -> Any:
        if isinstance(value, tuple):
            inner, inner_leaves = build(library, *value, requires_grad)
            leaves.extend(inner_leaves)
            return inner
        if isinstance(value, np.ndarray):
            leaves.append(library.tensor(value, dtype=library.float64).requires_grad_(requires_grad))
            return leaves[-1]
        return value

    converted = {key: convert(value) for key, value in arguments.items()}
    return getattr(library.distributions, name)(**converted), leaves


def build_here(name: str, arguments: dict[str, Any], requires_grad: bool = True) -> tuple[Any, list[Any]]:
    return build(ex, name, arguments, requires_grad)
