"""PyTorch's names that are no computation: settings, older spellings, other devices, what is refused in words."""
