"""Programs that people write, each the same text for Extempo and PyTorch: program(library, wrap) -> step(i) -> number.

`wrap` gets the function that the program calls again and again: a training step, or what predicts.
"""
