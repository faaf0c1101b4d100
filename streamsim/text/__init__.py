"""Text as people write it and read it: sizes, times and rates, ranges of them, and what a file is by its content."""
