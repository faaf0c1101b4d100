"""When everything happened, predicted or measured, and the chain of ops that sets the makespan."""
