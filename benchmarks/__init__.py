"""credo beside its peers: same data, same run."""
