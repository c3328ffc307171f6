"""Maps: from a table of measurements at places to a field, its report and files for other programs."""
