"""The terminal front end: an input at the bottom, a live region above it, and the terminal's own scrollback."""
