"""`mainspring --input-format stream-json`: a program drives us over two pipes, as the Claude Agent SDK does."""
