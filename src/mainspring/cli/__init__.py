"""The command line. Start reading at `main.py`."""
