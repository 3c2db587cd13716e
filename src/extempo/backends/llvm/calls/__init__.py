"""Between Python and kernels: objects, memory, and whole calls in native code."""
