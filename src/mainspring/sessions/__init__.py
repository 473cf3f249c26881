"""Sessions on disk: records, journals, and resuming them."""
