"""From bytes to inputs and outcomes in numbers."""
