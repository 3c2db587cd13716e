"""What a tensor is, and what holds while code runs: types, storage, ops, graphs, traces. No kernel is run here."""
