"""What can be believed: the models."""
