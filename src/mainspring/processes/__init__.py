"""Files and processes for tools: resolving, opening and writing paths, starting and ending programs."""
