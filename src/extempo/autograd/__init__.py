"""Differentiation: backward, grad, hooks, grad modes, Function, checkpoint."""
