"""The same work on many machines. Empty for now."""
