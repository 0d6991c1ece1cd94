"""From files, folders, the network or a generator to a graph with a split."""
