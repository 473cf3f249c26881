"""The hands: one tool per file, what a tool is in `base.py`, the way of a call in `pipeline.py`."""
