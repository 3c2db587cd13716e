"""Computing on types and sizes instead of values. There are two ways to know what something is at other sizes.

`sym_int` goes forwards: code runs once on symbols, and what it computes and decides becomes a function with guards. One
run is enough, and nothing is assumed. The code has to let symbols through: shape rules, the binding of a kernel and the
vjp of an op do, each a few dozen steps of arithmetic.

`affine` goes backwards: what came out at three sizes, by whatever code, is interpolated as constant + slope * n, or
refused. That is for what no symbol gets through: the user's own function, of which there are traces only, and a whole
plan, whose passes sort, hash and compare sizes by the thousand, so that nearly every size would have guards of its own.

The second builds on the first: `Affine.at(n)` takes a symbol as well as a number, and what of a plan is not affine (how
a product is cut) is worked out on one (`scheduling.affine_instructions`).
"""
