"""ex.compile from the user's side, by theme; `agreement` has what they share."""
