"""ONNX files as modules that run and train: `ex.from_onnx`.

    module         ex.from_onnx and OnnxModule: weights by name, checks of inputs, one run
    reading        bytes that nobody vouches for -> a parsed model, and its tensors as arrays
    graphs         a graph of the file -> steps in order, each a function of this room with its arguments
    table          how those functions are registered; their annotations say how inputs and attributes reach them
    sizes          sizes and limits: what a file may ask for
    host           arithmetic on sizes, on NumPy arrays, so that no tensor is read for it
    elementwise, reductions, arranging, indexing, matrices, convolutions, pooling, normalizations, losses, resizing,
    sampling_grids, regions, recurrent, control, quantization, signals, draws       the operators, by family

The package `onnx` (extra `onnx`) parses files; nothing else of it is used.
"""
