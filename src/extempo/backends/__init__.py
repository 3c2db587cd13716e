"""Where kernels come from. NumPy is the oracle that every other backend is tested against."""
