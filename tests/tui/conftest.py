"""The model server of the command's tests, and somebody who sits at the terminal."""

from cli.conftest import serve

from tui.person import sit_at

__all__ = ["serve", "sit_at"]
