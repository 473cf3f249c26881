"""The slash commands of a conversation, one module per family. The table is in `cli/slash/table.py`."""
