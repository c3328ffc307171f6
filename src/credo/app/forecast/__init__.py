"""From a series to its forecast."""
