"""Conformance with PyTorch: its own sample inputs (`op_db`), run through both libraries and compared."""
