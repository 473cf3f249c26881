"""The engine: performs what the core decides. Every `if` in here is about I/O."""
