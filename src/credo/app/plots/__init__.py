"""Pictures of predictions, beliefs, campaigns and plans."""
