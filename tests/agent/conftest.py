"""The model server of the command's tests."""

from cli.conftest import serve

__all__ = ["serve"]
