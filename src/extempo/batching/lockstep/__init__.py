"""Lockstep: a function that is the same graph for every sample runs once, for all samples together.

A pure function is traced with the sizes of a sample as symbols (`trace`), loops over a sample's rows included. The
graph then runs node by node on values that hold all samples (`values`): those of one shape side by side, those of each
sample's own size end to end, by the rules that vmap and ragged tensors have (`rules`), and loops turn by turn for all
samples that are not at their end (`loops`). How many ops run does not depend on how many samples there are. Any other
function is recorded sample by sample, as `batching.run` does.
"""
