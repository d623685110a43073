"""Banks around a bank."""
