"""The subcommands, each loaded when it is called."""
