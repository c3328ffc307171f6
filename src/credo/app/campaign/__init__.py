"""Campaigns on the command line."""
