"""The card: its memory, streams, events and kernels, the replay of a schedule on it, and its profiler."""
