"""Computing on sizes and types instead of values."""
