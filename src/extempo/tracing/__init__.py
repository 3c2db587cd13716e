"""`ex.compile`: functions whose Python always runs, and whose ops are traced and run as plans.

    call -> compiled_function: trace it, or run it eagerly (policy)
         -> executor: has a trace, runs it
              tracer: appends ops, along the trace tree
              planner: gets a segment its plan (scheduling), which is native code (backends.llvm.plans)
              interpreter: runs one that has none, op by op
              backward: what has not run yet and all gradients, as one segment

The trace is also the graph that backward goes through: no nodes are made. All tracked tensors of a trace share one
proxy; whoever asks for a node itself closes the trace: it is run, `materialize` links the nodes that eager mode would
have linked, with the numbers they would have had, and a new trace begins. Asking a tensor for its array, storage
or node anywhere goes through properties that make its source run first, so code that knows nothing of traces is right
by construction. Handing memory out (`numpy()`, DLPack) makes traces that read it run first; an array that NumPy had
before must not be written between a line that uses its tensor and the next value read.

Where a value is asked for, everything traced is run, and what stays is: tensors that someone refers to, and what the
gradients of tracked ops read. A segment is known by its node in the trace tree and by which tensors are live. A
`backward()` is one more kind of segment: forward, gradients and all in one plan; so is `autograd.grad`. A plan never
writes to memory from outside, so one that fails has changed nothing, and the replay raises the error with the traced
line. Writes (in place, `.grad`, optimizers, clipping) happen eagerly between plans.

A tracked result that escapes from a compiled function without being read keeps its trace: a loss and a `backward()`
outside are traced on and planned as if they were inside. What never comes up again is forgotten (`eviction`).
"""
