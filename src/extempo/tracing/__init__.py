"""`ex.compile`: functions whose Python always runs, and whose ops are traced and run as plans.

    call -> tracer (along the trace tree) -> segment -> plan (scheduling) -> native code (backends.llvm.plans)

The trace is also the graph that backward goes through: no nodes are made. All tracked tensors of a trace share one
stand-in node; whoever asks for a node itself closes the trace: it is run, `materialize` links the nodes that eager mode
would have linked, with the numbers they would have had, and a new trace begins. Asking a tensor for its array, storage
or node anywhere goes through properties that make its source run first, so code that knows nothing of traces is right
by construction. Handing memory out (`numpy()`, DLPack) makes traces that read it run first; an array that NumPy had
before must not be written between a line that uses its tensor and the next value read.

Where a value is asked for, everything traced is run, and what stays is: tensors that someone refers to, and what the
gradients of tracked ops read. A segment is known by its node in the trace tree and by which tensors are live. A
`backward()` is one more kind of segment: forward, gradients and all in one plan; so is `autograd.grad`. A plan never
writes to memory from outside, so one that fails has changed nothing, and the replay raises the error with the traced
line. Writes (in place, `.grad`, optimizers, clipping) happen eagerly between plans.

A tracked result that leaves a compiled function without being read keeps its trace: a loss and a `backward()` outside
are traced on and planned as if they were inside. What never comes up again is forgotten (`eviction`).
"""
