"""Plans as native code: fused elementwise kernels, and one callable that runs a list of instructions."""
