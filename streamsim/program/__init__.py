"""What the host asks for: schedules, workloads and the patterns that make one of the other."""
