"""Fuzzers: programs that look for failures as long as they are let; `__main__.py` has the contract."""
