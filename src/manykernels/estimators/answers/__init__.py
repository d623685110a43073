"""What a model says: contributions, importance, stability."""
