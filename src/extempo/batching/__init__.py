"""`ex.batch`: one sample at a time, at batch speed.

    call -> samples in greenlets -> calls of kinds -> agenda -> runners -> rows of values

What DyNet does with a lazily built graph of all samples, on tensors that a sample can also read. In reading order:

`api` starts the samples, each in a greenlet that stops where it needs a value (`greenlets`). What a sample does becomes
calls (`sample_tracer`): an op a call of a kind (`op_kinds`: the op with its attributes, the types of its inputs, its
weights), a cell one call of a kind that was traced from its body (`cells`, `signatures`, `cell_tracer`), which holds as
long as what the body reads from Python is as it was (`purity_guards`, `read_search`, `read_guards`). A module of the
user's becomes a cell by itself (`automatic_cells`) if its bytecode (`checked_bytecode`) does nothing that is not known
to be pure (`pure_calls`). Native code records calls like earlier ones (`call_cache`).

When all samples wait, the run (`run`) flushes: `agenda` puts what was recorded into batches: strongly connected
components of the graph of kinds in topological order, levels within a component; long ones run in common arrays
(`levels`). A batch gathers its inputs as rows (`rows`: an address for each value, so any rows of any arrays) and leaves
its results as rows. `native_runner` traces the kind under a vmap level (`row_tracer`), partitions that into forward,
backward and deferred parts (`partition`) and makes plans of them whose sizes are functions of the number of rows
(`programs`, `backward_programs`, `template_cache`, `packing`); `vmap_runner` runs op by op.

A run may also stay open (`open_run`): samples come while others run and leave with a future when they are done.

The run is one node of the graph outside (`gradients`); what reduces over rows is deferred to the end of its backward
and done once. `report` says what was batched with what, and why not more.
"""
