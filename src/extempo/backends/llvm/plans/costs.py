"""What an op adds to the time that LLVM takes for a kernel: milliseconds, about, so that no kernel takes too long."""

from __future__ import annotations

from ....core.op import Op

_LEAST = 1.0  # much more than an addition takes, so that clusters do not become too long, either
# By the method of the Emitter that writes it: two or three milliseconds where a polynomial or calls of the C library
# are written, more where several are.
_COSTS = {
    **dict.fromkeys(("exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sigmoid", "tanh", "lgamma"), 3.0),
    **dict.fromkeys(("tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"), 2.0),
    **dict.fromkeys(("atan2", "hypot", "nextafter", "fmod"), 2.0),
    **dict.fromkeys(("softplus", "silu", "gelu", "gelu_tanh", "mish", "erf", "remainder"), 5.0),
    **dict.fromkeys(("erfc", "sin", "cos", "pow", "pow_tensor", "floor_divide"), 8.0),
}


def cost_of(op: type[Op]) -> float:
    """Of an elementwise op, by what its `lower` names."""
    code = getattr(op.lower, "__code__", None)
    return _LEAST + sum(_COSTS.get(name, 0.0) for name in (code.co_names if code is not None else (op.name,)))
