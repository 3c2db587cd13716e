"""IR as text, and from text to addresses."""
