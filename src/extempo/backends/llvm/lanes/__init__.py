"""What one element of an op is, on all lanes of a vector at once: the vocabulary of `lower`."""
