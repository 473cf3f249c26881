"""The built-in tools: one module per tool, the `Tool` class in `base.py`, the tool pipeline in `pipeline.py`."""
