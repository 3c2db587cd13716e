"""Importing this registers every hand-written routine."""
