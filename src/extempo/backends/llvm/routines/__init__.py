"""Hand-written routines, which ops name by `lower = Routine("name")`; `registry` imports them all."""
