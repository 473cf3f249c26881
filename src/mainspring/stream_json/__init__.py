"""stream-json: the frames and control requests of a session that a program drives, over a pipe or in one process."""
