"""Native kernels: IR written as text, compiled by LLVM. Without llvmlite everything here is simply not used.

    ir           IR as text; text -> object code -> address, kept on disk by text, CPU and LLVM version
    lanes        what one element of an op is, on eight lanes at once: the vocabulary of `lower`
    elementwise  the loops around it (rows and columns, tails by masks, any strides), for one op or a graph of them
    routines     hand-written routines, which ops name by `lower = Routine("name")`, with rules that bind them to sizes
    calls        between Python and kernels: fields of objects, the pool of memory; whole calls: an op, a view,
                 tracing an op, ending a segment, the loop of backward
    plans        clusters of elementwise functions, the runner of instructions
    threads      threads for large kernels, parked in generated code; they end before a fork and at exit

No optimisation passes run but SROA, since the text has explicit vectors already, and no fast-math flag is ever written.
LLVM's time is proportional to the text, 20 to 50 us a line: what many places end in is written once (`way_out`), and
code of calls that are made once a step is not optimised at all. The code of calls follows from the sources: a later
process finds it on disk without writing it. A routine declines by a status, for example at an index out of range, and
the op's NumPy kernel then runs and raises the error that teaches. Calls know Extempo's classes by the offsets of their
slots and do only what is known already (a kernel, a type, what to keep); Python does the rest and fills it in, so there
is one meaning, and native code is a short way to it.
"""
