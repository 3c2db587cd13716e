"""Kernels of elementwise ops and graphs, on arrays of any layout."""
