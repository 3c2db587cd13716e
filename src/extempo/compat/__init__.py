"""PyTorch's names that are no computation: settings, older spellings, modules, other devices, what is refused."""
