"""`Agent` and `ask`: an agent in a few lines. `mainspring` exports what is public here; see docs/library.md."""
