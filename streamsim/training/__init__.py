"""Training loops: the loop that a recording shows, and what a loop waits for."""

from streamsim.training.loops import loop_of, waits_for
