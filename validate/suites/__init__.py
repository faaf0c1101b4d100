"""Which schedules are measured to see how good the model is. Needs a card only to run."""
