"""Models written for one sample whose size is its own, as PyTorch users write them: a row of per_sample.py each."""
