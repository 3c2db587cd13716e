"""Calls of one op at several sizes as one batch: sizes are data, not kinds.

`together` finds the kinds that differ in sizes only and puts their calls together. How they run is a *form*: `by_rows`
(each call is so many calls of one row), `along` (a reduction, scan or pick over rows of any length) and `arranged` (the
same where rows must be copied first), `spread` for broadcasting, `views`, `joins`, `picks`, `products`, `triangles`,
`windows`, `class_losses`, `norms`, `attention`, `sequences` for ops that have ways of their own, and `each`, one call
after the other, for the rest. `forms` has what they share, `tape` how gradients go where ordinary ops have run.
"""
