"""From a tape to a plan: the steps of a recording, and their gradients, as native instructions over one arena."""
