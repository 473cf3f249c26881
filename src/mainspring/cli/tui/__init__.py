"""The terminal: an input at the bottom, what happens above it, and the terminal's own scrollback for the past."""
