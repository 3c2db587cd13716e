"""The NumPy backend: a kernel for every op, and the oracle that every other backend is tested against."""
