"""The subcommands, each imported when it runs."""
