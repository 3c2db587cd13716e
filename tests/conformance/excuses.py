"""Every place where Extempo is held to something else than "the same numbers as PyTorch", each with its reason.

Keys are op_db names. What is not listed here is compared with `DEFAULT` (or `ELEMENTWISE`) tolerances, in full. A row
is looked up only for its name; `test_op_db.py` fails when a row names an op that op_db does not have.
"""

from __future__ import annotations

from typing import NamedTuple


class Tolerance(NamedTuple):
    """|ours - theirs| <= absolute + relative * |theirs|, per dtype of the result."""

    float64: tuple[float, float]  # (relative, absolute)
    float32: tuple[float, float]
    reason: str


# float16 and bfloat16 results appear only where an op converts to them; both libraries round to nearest even.
HALF_PRECISION = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5)}

ELEMENTWISE = Tolerance((1e-7, 1e-7), (1.3e-6, 1e-5), "what torch.testing.assert_close asks by default")
DEFAULT = Tolerance((1e-7, 1e-7), (1e-4, 1e-5), "sums and products are added up in another order")

# Forward and gradient.
TOLERANCES: dict[str, Tolerance] = {
    "cov": Tolerance(
        (5e-5, 1e-7),
        (1e-4, 1e-4),
        "float64: weights are float32 and their sums cancel, against float64 weights PyTorch is off by 2.6e-5, ours by "
        "1.1e-5; float32: the true gradient is 0, and what both return is the rounding of sums of about 1e2",
    ),
    "linalg.eigh": Tolerance(
        (1e-7, 1e-7),
        (1e-3, 1e-4),
        "float32 gradients near equal eigenvalues: against float64 PyTorch is off by 7e-5, ours by 3e-6",
    ),
    "linalg.lstsq": Tolerance(
        (1e-7, 1e-7),
        (1e-3, 1e-4),
        "float32 gradients through a squared condition number: 1 of 108 elements differs by 2e-4",
    ),
    "matrix_exp": Tolerance(
        (1e-7, 1e-7), (5e-3, 1e-3), "float32: against float64 PyTorch is off by 0.05, ours by 0.002"
    ),
    "native_layer_norm": Tolerance(
        (1e-7, 1e-7), (1e-4, 5e-5), "the true gradient is 0 and PyTorch returns its rounding"
    ),
    "grid_sampler_2d": Tolerance(
        (1e-7, 1e-7),
        (1e-4, 2e-4),
        "differences of large products; against float64 our largest error is not above PyTorch's",
    ),
    "nn.functional.grid_sample": Tolerance(
        (1e-7, 1e-7),
        (1e-4, 2e-4),
        "differences of large products; against float64 our largest error is not above PyTorch's",
    ),
    "nn.functional.conv_transpose3d": Tolerance(
        (1e-7, 1e-7),
        (1e-4, 5e-5),
        "sums of hundreds of products; against float64 our largest error is not above PyTorch's",
    ),
    "nn.functional.scaled_dot_product_attention": Tolerance(
        (1e-7, 1e-7),
        (1e-4, 2e-4),
        "gradients of about 35: mean error below PyTorch's, the largest 1.2e-4 against its 8e-5",
    ),
    "polygamma": Tolerance(
        (1e-7, 1e-7), (3e-5, 1e-5), "against float64 PyTorch's float32 is off by 2e-5, ours by 6e-8"
    ),
    "special.polygamma": Tolerance(
        (1e-7, 1e-7), (3e-5, 1e-5), "against float64 PyTorch's float32 is off by 2e-5, ours by 6e-8"
    ),
    "special.hermite_polynomial_he": Tolerance(
        (1e-7, 1e-7), (3e-5, 1e-5), "against float64 PyTorch's float32 is off by 1e-5, ours by 6e-8"
    ),
    "special.bessel_j0": Tolerance(
        (1e-7, 5e-7), (1.3e-6, 1e-5), "PyTorch's float64 is off by 3e-7 just above 5; ours agrees with the integral"
    ),
    "special.bessel_y1": Tolerance(
        (1e-7, 5e-7), (1.3e-6, 1e-5), "PyTorch's float64 is off by 3e-7 just above 5; ours agrees with the integral"
    ),
}

# Never a pass, whatever Extempo returns.
NOT_COMPARABLE: dict[str, str] = {
    "svd_lowrank": "PyTorch's own result changes with the seed, beyond any tolerance worth the name",
}

# The contents are whatever the memory held: only shape, dtype and, where asked for, strides are compared.
UNINITIALISED: dict[str, str] = {
    "empty": "memory is not written",
    "empty_like": "memory is not written",
    "empty_permuted": "memory is not written",
    "empty_strided": "memory is not written",
    "new_empty": "memory is not written",
    "new_empty_strided": "memory is not written",
    "resize_": "memory that is added is not written",
    "resize_as_": "memory that is added is not written",
}

# Streams need not equal PyTorch's. A sample whose result does not depend on the seed (dropout with p=0, or in
# evaluation mode) is compared in full; the others by shape, dtype and what `properties.py` states of them.
RANDOM: dict[str, str] = {
    "bernoulli": "random",
    "cauchy": "random",
    "exponential": "random",
    "geometric": "random",
    "log_normal": "random",
    "multinomial": "random",
    "nn.functional.alpha_dropout": "random",
    "nn.functional.dropout": "random",
    "nn.functional.dropout2d": "random",
    "nn.functional.dropout3d": "random",
    "nn.functional.feature_alpha_dropout": "random",
    "nn.functional.fractional_max_pool2d": "random pooling regions",
    "nn.functional.fractional_max_pool3d": "random pooling regions",
    "nn.functional.multi_head_attention_forward": "random where dropout is on",
    "nn.functional.rrelu": "random slope",
    "nn.functional.scaled_dot_product_attention": "random where dropout_p is not 0",
    "normal": "random",
    "rand_like": "random",
    "randint": "random",
    "randint_like": "random",
    "randn": "random",
    "randn_like": "random",
    "uniform": "random",
}

# PyTorch documents that any of several equal elements may be named; then an index must point at an equal element.
TIES: dict[str, str] = {
    "kthvalue": "which of several equal elements is the k-th is not defined",
    "median": "which of several equal elements is named is not defined",
    "mode": "which of several equal elements is named is not defined",
    "nanmedian": "which of several equal elements is named is not defined",
    "sort": "without stable=True the order of equal elements is not defined",
    "topk": "the order of equal elements is not defined",
}

# Raw outputs are compared by shape and dtype, values and gradients after the sample's own `output_process_fn_grad`,
# which maps the factors to what the matrix determines.
FACTORS: dict[str, str] = {
    "linalg.eigh": "eigenvectors are determined up to their sign",
    "linalg.svd": "singular vectors are determined up to their sign, those of the null space up to a rotation",
    "pca_lowrank": "singular vectors are determined up to their sign; the range is found at random",
    "svd": "singular vectors are determined up to their sign, those of the null space up to a rotation",
}

# A matrix function that reads a symmetric (or triangular) argument has a gradient only along symmetric (triangular)
# changes. Keyed by the wrapper that PyTorch's own gradient check uses for such an OpInfo; both sides are projected.
SYMMETRIC_GRADIENT = "gradcheck_wrapper_hermitian_input"
TRIANGULAR_GRADIENT = "gradcheck_wrapper_triangular_input_real_positive_diagonal"
# PyTorch's ctc_loss gives the gradient with respect to the input of the log_softmax that made its argument.
LOG_SOFTMAX_GRADIENT = "gradcheck_wrapper_ctc_loss"


def listed_names() -> set[str]:
    """All op names that some table above names."""
    return {*TOLERANCES, *NOT_COMPARABLE, *UNINITIALISED, *RANDOM, *TIES, *FACTORS}
