"""Training loops: the loop that a recording shows, and what a loop waits for."""

from streamsim.training.recorded import loop_of
from streamsim.training.waits import waits_for
