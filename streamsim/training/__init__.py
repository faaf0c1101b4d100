"""Training loops: what pinned memory, ``non_blocking``, a prefetcher and more workers bring to a loop as it is."""
