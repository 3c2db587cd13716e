"""ex.batch and cells; `agreement` compares with the plain loop."""
