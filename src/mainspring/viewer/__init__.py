"""The trace viewer: a session on a time axis, and its replay step by step (docs/viewer.md)."""
