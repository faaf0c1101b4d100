"""What was measured: the shipped records, and the code that reads and writes such files. Needs no card."""
