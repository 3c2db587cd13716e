"""Hand-written routines, which ops name by `lower = Routine("name")`; `listed` imports them all."""
