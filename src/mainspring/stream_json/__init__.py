"""A session that a program drives, in frames of stream-json: over a pipe, or within one process."""
