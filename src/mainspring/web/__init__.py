"""Web access for the tools: checked addresses, pages as text, searches."""
