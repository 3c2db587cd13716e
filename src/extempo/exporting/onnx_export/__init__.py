"""Programs as ONNX models: each op by its own `onnx` aspect, sizes as values, branches as If, loops as Loop.

    builder      nodes, constants and sizes of an ONNX graph, by the names of ONNX's operators: `b.Transpose(x, perm=...)`
    walker       the graph of a program, node by node, into a builder
    rules        the aspects that are a word: "elementwise" and "kernel"
    emitter      "elementwise": an op's native code for single elements, said in ONNX's operators
    kernels      "kernel": an op's NumPy kernel run on symbols that note what it computes
    control      cond, while_loop, scan and map as If and Loop
    recurrent    LSTM, GRU and RNN as ONNX's own operators
    model        program.to_onnx: the whole model, checked and written
    coverage     which ops have a form, for docs/onnx.md

The packages `onnx` and `onnxruntime` are the extra `onnx`; the first is loaded when a model is made, the second in tests.
"""
