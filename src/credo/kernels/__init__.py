"""Similarity: covariance functions. Empty until the Gaussian processes arrive."""
