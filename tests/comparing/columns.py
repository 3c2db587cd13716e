"""Columns of a comparison, made by hand."""

from __future__ import annotations

from extempo.comparing.figures import Figures


def column(mode: str, per_step: float | list[float], *, variant: str = "step", taken: str = "1111", **given) -> Figures:
    """A column whose steps take `per_step` seconds, or so long in each round."""
    takes = [t == "1" for t in taken]
    rounds = per_step if isinstance(per_step, list) else [per_step] * 7
    name = mode if variant == "step" else variant
    made = Figures(name, variant, mode, seconds=[[s if t else None for t in takes] for s in rounds], taken=takes)
    made.losses = [[1.0 if t else None for t in takes] for _ in rounds]
    made.structures, made.lengths = list(range(len(takes))), [0] * len(takes)
    made.parameter_shapes, made.dtypes, made.threads = [(2, 3)], ["float32"], [1] * len(rounds)
    made.batch_sizes = [8] * len(takes)
    for name, value in given.items():
        setattr(made, name, value)
    return made
