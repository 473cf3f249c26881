"""The engine: performs what the core decides. Every `if` in this package is about I/O."""
