"""What happened, kept: records and journals."""
