"""What a profiler recorded of a real program: readers of each format, one value for all, windows of it, a summary."""
