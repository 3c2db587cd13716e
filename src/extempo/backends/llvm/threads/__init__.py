"""Threads for large kernels."""
