"""One sample at a time, at batch speed: cells, `ex.batch`, and the agenda that runs calls of one kind as one."""
