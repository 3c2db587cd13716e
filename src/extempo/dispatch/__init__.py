"""One op, now: from a call to a kernel, with the caches that make the second call cheap."""
