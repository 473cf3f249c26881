"""What the words with a slash do in a conversation, a file for each family. `cli/slash/table.py` has the table."""
