"""`ex.compile`: functions whose ops are traced and run as plans."""
