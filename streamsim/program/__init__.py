"""The host's requests: schedules, workloads, and the patterns that make schedules of workloads."""
