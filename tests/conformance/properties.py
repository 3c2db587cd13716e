"""What must hold of a random result, where PyTorch's numbers are one draw of many.

Each function gets our results as arrays and the sample's arguments (`inputs`, tensors as arrays), and returns what is
wrong, or None. Shapes and dtypes have been compared before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Property = Callable[[Sequence[Array], "Inputs"], str | None]


class Inputs:
    """A sample's arguments by position, and by name where PyTorch names them."""

    def __init__(self, positional: Sequence[Any], named: dict[str, Any]) -> None:
        self.positional = positional
        self.named = named

    def get(self, position: int, name: str, default: Any = None) -> Any:
        """The argument at `position`, or of that name, or the default."""
        if position < len(self.positional):
            return self.positional[position]
        return self.named.get(name, default)


def finite(results: Sequence[Array], inputs: Inputs) -> str | None:
    """No result is nan or infinite."""
    return None if all(np.isfinite(result).all() for result in results) else "a draw is not finite"


def zero_or_one(results: Sequence[Array], inputs: Inputs) -> str | None:
    """Draws of a coin whose probability is the input."""
    probability = inputs.get(0, "input")
    fits = np.where(probability <= 0, results[0] == 0, np.where(probability >= 1, results[0] == 1, True))
    return None if np.isin(results[0], (0, 1)).all() and fits.all() else "a draw is neither 0 nor 1, or is impossible"


def positive(results: Sequence[Array], inputs: Inputs) -> str | None:
    """All draws are above zero."""
    return finite(results, inputs) or (None if (results[0] > 0).all() else "a draw is not positive")


def counts_from_one(results: Sequence[Array], inputs: Inputs) -> str | None:
    """Whole numbers from 1 up."""
    whole = (results[0] >= 1).all() and (results[0] == np.floor(results[0])).all()
    return None if whole else "a draw is not a whole number from 1 up"


def in_unit_interval(results: Sequence[Array], inputs: Inputs) -> str | None:
    """0 <= draw < 1."""
    return _within(results[0], 0, 1)


def in_given_interval(results: Sequence[Array], inputs: Inputs) -> str | None:
    """low <= draw < high, of uniform_."""
    return _within(results[0], inputs.get(1, "from", 0), inputs.get(2, "to", 1))


def whole_in_range(results: Sequence[Array], inputs: Inputs) -> str | None:
    """low <= draw < high and whole, of randint and randint_like."""
    numbers = [value for value in inputs.positional if isinstance(value, int)]
    low, high = (0, numbers[0]) if len(numbers) == 1 else numbers
    if (results[0] != np.floor(results[0])).any():
        return "a draw is not whole"
    return _within(results[0], low, high)


def _within(result: Array, low: float, high: float) -> str | None:
    return None if ((result >= low) & (result < high)).all() else f"a draw is outside [{low}, {high})"


def indices_of_positive_weights(results: Sequence[Array], inputs: Inputs) -> str | None:
    """Rows of indices, distinct unless drawn with replacement, none of a weight 0."""
    weights = np.atleast_2d(inputs.get(0, "input"))
    rows = np.atleast_2d(results[0])
    if ((rows < 0) | (rows >= weights.shape[1])).any():
        return "an index is out of range"
    if (np.take_along_axis(weights, rows, axis=1) <= 0).any():
        return "an index of weight 0 was drawn"
    if not inputs.get(2, "replacement", False) and any(len(set(row)) < len(row) for row in rows.tolist()):
        return "an index was drawn twice without replacement"
    return None


def kept_or_zero(results: Sequence[Array], inputs: Inputs) -> str | None:
    """Every element is 0 or the input scaled by 1 / (1 - p)."""
    scaled = inputs.get(0, "input") / (1 - inputs.get(1, "p", 0.5))
    kept = np.isclose(results[0], scaled, rtol=1e-5)
    return None if (kept | (results[0] == 0)).all() else "an element is neither dropped nor scaled"


def channels_kept_or_zero(unbatched_ndim: int | None) -> Property:
    """As kept_or_zero, and a channel is kept or dropped as a whole; `unbatched_ndim` dimensions mean one sample."""

    def check(results: Sequence[Array], inputs: Inputs) -> str | None:
        x = inputs.get(0, "input")
        spatial = tuple(range(1 if x.ndim == unbatched_ndim else 2, x.ndim))
        dropped = results[0] == 0
        whole = dropped.all(axis=spatial) | ~(dropped & (x != 0)).any(axis=spatial)
        return kept_or_zero(results, inputs) or (None if whole.all() else "a channel is dropped in part")

    return check


def alpha_kept_or_saturated(results: Sequence[Array], inputs: Inputs) -> str | None:
    """Every element is a * x + b or a * saturation + b, with a and b that keep mean and variance."""
    p = inputs.get(1, "p", 0.5)
    saturation = -1.7580993408473766  # -scale * alpha of selu
    a = 1 / math.sqrt((1 - p) * (1 + p * saturation**2))
    b = -a * p * saturation
    kept = np.isclose(results[0], a * inputs.get(0, "input") + b, rtol=1e-4, atol=1e-5)
    dropped = np.isclose(results[0], a * saturation + b, rtol=1e-4, atol=1e-5)
    return None if (kept | dropped).all() else "an element is neither saturated nor scaled"


def slope_in_range(results: Sequence[Array], inputs: Inputs) -> str | None:
    """Positive elements are kept, negative ones multiplied by a slope in [lower, upper]."""
    x = inputs.get(0, "input")
    lower, upper = inputs.get(1, "lower", 1 / 8), inputs.get(2, "upper", 1 / 3)
    low, high = np.minimum(x * lower, x * upper) - 1e-6, np.maximum(x * lower, x * upper) + 1e-6
    fits = np.where(x >= 0, results[0] == x, (results[0] >= low) & (results[0] <= high))
    return None if fits.all() else "a slope is outside [lower, upper]"


def pooled_from_input(results: Sequence[Array], inputs: Inputs) -> str | None:
    """Every output is an element of its channel; where indices are given, the one they name."""
    x, pooled = inputs.get(0, "input"), results[0]
    n_channel_dims = x.ndim - _pooled_dims(inputs)
    channels = x.reshape(math.prod(x.shape[:n_channel_dims]), -1)
    values = pooled.reshape(len(channels), -1)
    if not all(np.isin(values[row], channels[row]).all() for row in range(len(channels))):
        return "an output is no element of its channel"
    if len(results) == 2:
        named = np.take_along_axis(channels, results[1].reshape(len(channels), -1), axis=1)
        return None if (named == values).all() else "an index names another element"
    return None


def _pooled_dims(inputs: Inputs) -> int:
    for value in (inputs.get(1, "kernel_size"), inputs.get(2, "output_size"), inputs.get(3, "output_ratio")):
        if isinstance(value, list | tuple):
            return len(value)
    return inputs.get(0, "input").ndim - 2


PROPERTIES: dict[str, Property] = {
    "bernoulli": zero_or_one,
    "cauchy": finite,
    "exponential": positive,
    "geometric": counts_from_one,
    "log_normal": positive,
    "multinomial": indices_of_positive_weights,
    "nn.functional.alpha_dropout": alpha_kept_or_saturated,
    "nn.functional.dropout": kept_or_zero,
    "nn.functional.dropout2d": channels_kept_or_zero(None),  # three dimensions are (batch, channel, length)
    "nn.functional.dropout3d": channels_kept_or_zero(4),
    "nn.functional.feature_alpha_dropout": alpha_kept_or_saturated,
    "nn.functional.fractional_max_pool2d": pooled_from_input,
    "nn.functional.fractional_max_pool3d": pooled_from_input,
    "nn.functional.multi_head_attention_forward": finite,
    "nn.functional.rrelu": slope_in_range,
    "nn.functional.scaled_dot_product_attention": finite,
    "normal": finite,
    "rand_like": in_unit_interval,
    "randint": whole_in_range,
    "randint_like": whole_in_range,
    "randn": finite,
    "randn_like": finite,
    "uniform": in_given_interval,
}
