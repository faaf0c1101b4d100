"""Training loops: what pinned memory, ``non_blocking``, a prefetcher and more workers bring to a loop as it is."""

from streamsim.training.loop import LoopAdvice, LoopRow, loop_advice, timelines_of
from streamsim.training.recorded import loop_of
