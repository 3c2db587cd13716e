"""Outlining: what a sample's function computes in a row becomes a cell, though the function as a whole cannot be one.

A function that recurses over a tree, or branches on values, is rewritten (`rewriting`): statements in a row that look
as if they only computed (`callees` says what calls are) become the body of an automatic cell, a *region*, whose
arguments are the variables that it reads and whose results are those that it sets; everything else stays as it is. A
region is a cell once it was proven to do nothing but compute, as a module is; until then, and whenever it is none, its
statements run where they stand. `outlines` has the rewritten functions, which run inside of `ex.batch` only.

Calls that a function makes of itself, and that nothing after them depends on (`independence`), are *forks*: they run
beside what follows, so that all branches of a sample ask for their values at once (`forks`).
"""
