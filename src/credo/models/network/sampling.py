"""Draws."""
def draws(network, n, seed):
    raise NotImplementedError
