"""Training loops: what pinned memory, ``non_blocking``, a prefetcher and more workers bring to a loop as it is."""

from streamsim.training.loop import Loop, LoopAdvice, LoopRow, enough_workers, loop_advice, seconds_a_step, timelines_of
from streamsim.training.recorded import loop_of
