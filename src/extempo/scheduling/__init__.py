"""From a segment of a trace to a plan: native instructions over one arena.

    request -> program, backward (vjp_templates) -> dead_code -> fusion -> interleaving -> memory_planner -> codegen

Gradients are the engine's arithmetic, contribution by contribution, from templates traced once per op and types.
Elementwise nodes of one shape become clusters, each one kernel whose inner values stay in registers, generic in sizes.
Some units are interleaved: a cluster and the sums of what it computes, a matrix product and the cluster that reads it,
run part by part as one instruction, so that values are used while they are in the cache; sums and products keep their
own arithmetic, so bits do not change.

A long loop is found (`loop_detection`), planned as a short one, and the turns left out are copies of one that was
planned (`loop_rerolling`, `loop_copies`); the same loop at another length needs no planning (`loop_cache`). Sizes that
are new are arithmetic within a range that was planned at its ends and in the middle (`size_ranges`,
`affine_instructions`); templates of `ex.batch` are plans in the number of rows (`row_templates`). All else is planned
in pieces, of which a call does a few.
"""
