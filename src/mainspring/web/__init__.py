"""The web as tools see it: addresses that are beyond doubt, pages as text, searches."""
