"""The slash commands that need no screen, one module per family: what each does, and the lines that it answers.

The table is in `agent/slash_commands.py`. A command takes a `SlashContext` and the text after its name. It writes
lines, raises `SlashCommandError` if it fails, and may return a prompt for the model. The terminal draws the lines;
everywhere else they are the answer of the prompt (`answer.py`).
"""
