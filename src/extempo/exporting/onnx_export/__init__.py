"""Programs as ONNX models: each op by its own `onnx` aspect, sizes as values, branches as If, loops as Loop.

    builder      nodes, constants and sizes of an ONNX graph, by the names of ONNX's operators
    walker       the graph of a program, node by node, into a builder
    rules        the aspects that are a word: "elementwise", "kernel" and "control"
    emitter      "elementwise": an op's native code for single elements, said in ONNX's operators
    kernels      "kernel": an op's NumPy kernel run on symbols that note what it computes
    control      cond, while_loop, scan and map as If and Loop
    recurrent    LSTM, GRU and RNN as ONNX's own operators
    padded_rows  ragged inputs and outputs as padded rows and lengths
    model        program.to_onnx: the whole model, checked and written

The packages `onnx` and `onnxruntime` are the extra `onnx`; the first is loaded when a model is made.
"""
