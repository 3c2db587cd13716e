"""`import torch` means Extempo: how a program or library that was written for PyTorch runs unmodified.

`finder` answers imports of `torch` and of everything below it with modules that hand on to Extempo's (`facade`);
`layout` says which of Extempo's each one is. A module here, such as `jit`, holds what Extempo has no use for itself and
PyTorch's programs still call. What is refused can be imported, and says why when it is used (`core.absent_names`).
"""
