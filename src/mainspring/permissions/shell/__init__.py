"""The shell checker: what a command line would run, read and write, without running it.

`parse.py` is the way in. Two readers look at each line, ours and tree-sitter's; what they do not both understand, and
understand alike, is not resolvable. Nothing here decides: `../bash.py` does.
"""
