"""The version, in a place that every layer may read. `importlib.metadata` would take 15 ms to find it."""

__version__ = "0.1.0.dev0"
