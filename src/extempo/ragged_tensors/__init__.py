"""Ragged tensors: rows of different length in one tensor, without padding."""
