"""`ex.batch`: one sample at a time, at batch speed.

    call -> samples in greenlets -> calls of kinds (sample_tracer, cells) -> agenda -> runners -> rows of values

An op becomes a call of a kind (the op with its attributes, the types of its inputs, its weights), a cell one call of a
kind that was traced from its body. The agenda puts what was recorded into batches: strongly connected components of the
graph of kinds in topological order, levels within a component; long ones run in common arrays (`levels`). A batch
gathers its inputs as rows (`rows`: an address for each value, so any rows of any arrays) and leaves its results as
rows. `native_runner` traces the kind under a vmap level and makes plans whose sizes are functions of the number of
rows; `vmap_runner` runs op by op. The run is one node of the graph outside (`gradients`); what reduces over rows is
left to the end of its backward and done once. Kinds hold as long as what their bodies read (`purity_guards`).
"""
