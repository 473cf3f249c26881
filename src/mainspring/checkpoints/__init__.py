"""File checkpoints: the whole workspace as it was before each prompt, and the way back to it.

`entries.py` has the values, `scan.py` looks at the workspace, `store.py` keeps what it found, `compare.py` says what
changed, `rewind_plan.py` what a rewind does, `restore.py` writes files back, and `history.py` puts them together for
one session. A live session uses them through `agent/checkpoints.py`; `mainspring rewind` and `mainspring diff` use
`history.py` on a stored one.
"""
