"""What touches files and processes on behalf of tools: where a path leads, how it is opened, how it is written."""
