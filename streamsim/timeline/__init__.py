"""Time lines: the times of every op, predicted or measured, and the critical path that sets the makespan."""
