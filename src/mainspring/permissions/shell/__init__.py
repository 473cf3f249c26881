"""The shell checker: what a command line would run, read and write, without running it.

`parse.py` is the entry point. Two parsers read each line, ours and tree-sitter's; a line that either does not
understand, or on which they disagree, is not resolvable. Nothing is decided here: `../bash.py` does.
"""
