"""Text that people write and read: sizes, times and rates, ranges of them, and the kind of a file from its content."""
