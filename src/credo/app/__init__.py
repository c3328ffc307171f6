"""The applications: the command line, its report, the plots, and the table workflow that they share."""
