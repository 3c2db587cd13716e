"""Module names of PyTorch that have no file here import as they do there, and offer the same classes."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys

import pytest

import extempo as ex
from extempo.compat.torch_modules import MODULES

# Every module of torch.distributions whose classes are here, files and names without a file alike.
DISTRIBUTIONS = """bernoulli beta binomial categorical cauchy chi2 constraint_registry constraints continuous_bernoulli
dirichlet distribution exponential fishersnedecor gamma geometric gumbel half_cauchy half_normal independent
inverse_gamma kl kumaraswamy laplace log_normal logistic_normal mixture_same_family multinomial multivariate_normal
negative_binomial normal one_hot_categorical pareto poisson relaxed_bernoulli relaxed_categorical studentT
transformed_distribution transforms uniform utils von_mises weibull"""


@pytest.mark.parametrize("name", DISTRIBUTIONS.split())
def test_a_module_of_torch_distributions_offers_the_same_names_here(name):
    theirs = pytest.importorskip(f"torch.distributions.{name}")
    module = importlib.import_module(f"extempo.distributions.{name}")
    assert getattr(ex.distributions, name) is module
    assert module.__name__ == f"extempo.distributions.{name}"
    for class_name in set(theirs.__all__) & set(ex.distributions.__all__):
        assert getattr(module, class_name) is getattr(ex.distributions, class_name)


def test_a_module_without_a_file_is_the_first_import_of_a_program():
    code = (
        "from extempo.distributions.studentT import StudentT\n"
        "import extempo.distributions.relaxed_bernoulli as relaxed\n"
        "print(StudentT.__module__, relaxed.LogitRelaxedBernoulli.__module__, relaxed.__all__)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert out == (
        "extempo.distributions extempo.distributions.relaxed_bernoulli ['LogitRelaxedBernoulli', 'RelaxedBernoulli']"
    )


def test_every_module_in_the_table_offers_what_the_table_says_and_nothing_else():
    for package, modules in MODULES.items():
        for name, contents in modules.items():
            module = importlib.import_module(f"{package}.{name}")
            offered = [key for key in vars(module) if not key.startswith("_")]
            assert offered == module.__all__ == contents.split()


def test_classes_are_pickled_by_the_name_that_files_know():
    kind = ex.distributions.relaxed_categorical.ExpRelaxedCategorical
    assert kind.__module__ == "extempo.distributions.relaxed_categorical"
    assert ex.distributions.Normal.__module__ == "extempo.distributions"
    for found in (kind, ex.distributions.Normal):
        assert pickle.loads(pickle.dumps(found)) is found
