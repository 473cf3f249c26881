"""Models: one wire protocol per file."""
