"""The PyTorch program of a training loop, with the arguments and the prefetcher of a prediction."""

from string import Template

from streamsim.program import Loop

STEPS = 40  # at least, of which the second half is timed
_PROGRAM = Template('''\
"""A training loop: $words. Prints milliseconds a step as JSON."""

import json
import time

import torch
from torch.utils.data import DataLoader, Dataset, default_collate

BATCH = $batch
STEPS = $steps
ROUND = $round  # the workers' batches come in rounds: only whole rounds are timed


# ---- YOUR DATA GOES HERE: replace the stand-in ----
class Samples(Dataset):
    """Samples of $sample_bytes bytes, all alike."""

    sample = torch.zeros($sample_bytes, dtype=torch.uint8)

    def __len__(self):
        return BATCH * STEPS

    def __getitem__(self, i):
        return self.sample


def stack(samples):
    """Make a batch of its samples. This takes a worker $load_ms ms, as loading was said to take."""
    begin_s = time.perf_counter()
    batch = default_collate(samples)
    time.sleep(max(0.0, $load_s - (time.perf_counter() - begin_s)))
    return batch


# ---- YOUR STEP GOES HERE: forward, backward, optimizer; replace the stand-in ----
CYCLES_PER_S = 1e9


def step(batch):
    """A step keeps the card busy for $step_ms ms."""
    torch.cuda._sleep(int($step_s * CYCLES_PER_S))
    return batch[:1]


def measure_clock():
    """Cycles a second of the stand-in's waiting loop."""
    global CYCLES_PER_S
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(1000)
    begin.record()
    torch.cuda._sleep(100_000_000)
    end.record()
    end.synchronize()
    CYCLES_PER_S = 1e8 / (begin.elapsed_time(end) / 1e3)

$prefetcher
def epoch(loader):
    """Run a step on each batch. Return seconds from step to step on the card, without the first half of the steps."""
    begins = []
$loop
    torch.cuda.synchronize()
    last = len(begins) - 1
    steps = last // 2 // ROUND * ROUND
    return begins[last - steps].elapsed_time(begins[last]) / 1e3 / steps


if __name__ == "__main__":
    measure_clock()
    loader = DataLoader(
        Samples(),
        batch_size=BATCH,
        collate_fn=stack,  # goes with the stand-in
        num_workers=$workers,
        pin_memory=$pin_memory,$worker_arguments
    )
    print(json.dumps({"step_ms": epoch(loader) * 1e3}))
''')

_PREFETCHER = '''
class Prefetcher:
    """Copies the next batch to the card in a stream of its own, beside the step of this one."""

    def __init__(self, loader, device="cuda"):
        self.batches, self.device, self.stream = iter(loader), device, torch.cuda.Stream()

    def fetch(self):
        """Issue the copy of the next batch. Call it behind the step, so that the step never waits for the call."""
        batch = next(self.batches, None)
        with torch.cuda.stream(self.stream):
            self.batch = None if batch is None else batch.to(self.device, non_blocking=True)

    def take(self):
        """Return this batch: later work of the current stream waits for its copy."""
        torch.cuda.current_stream().wait_stream(self.stream)
        self.batch.record_stream(torch.cuda.current_stream())  # its memory is used until that work is done
        return self.batch

'''
_PREFETCHED = """\
    batches = Prefetcher(loader)
    batches.fetch()
    while batches.batch is not None:
        batch = batches.take()
        begins.append(torch.cuda.Event(enable_timing=True))
        begins[-1].record()
        loss = step(batch)
        batches.fetch()$loss"""
_IN_TURN = """\
    for batch in loader:
        batch = batch.to("cuda"$non_blocking)
        begins.append(torch.cuda.Event(enable_timing=True))
        begins[-1].record()
        loss = step(batch)$loss"""


def training_program(loop: Loop, words: str) -> str:
    """Return the source of a loop in PyTorch, with stand-ins for its data and its step; it runs unchanged."""
    of_round = max(1, loop.workers)
    is_prefetching = loop.issue != "in turn"
    body = Template(_PREFETCHED if is_prefetching else _IN_TURN).substitute(
        non_blocking=", non_blocking=True" if loop.non_blocking else "",
        loss="\n        loss.sum().item()" if loop.reads_loss else "",
    )
    more = "\n        persistent_workers=True,\n        prefetch_factor=2," if loop.workers else ""
    return _PROGRAM.substitute(
        words=words,
        batch=loop.batch,
        steps=max(STEPS, 4 * of_round),
        round=of_round,
        sample_bytes=max(1, loop.batch_bytes // loop.batch),
        load_ms=f"{loop.load_s * 1e3:g}",
        load_s=f"{loop.load_s:g}",
        step_ms=f"{loop.step_s * 1e3:g}",
        step_s=f"{loop.step_s:g}",
        prefetcher=_PREFETCHER if is_prefetching else "",
        loop=body,
        workers=loop.workers,
        pin_memory=loop.is_pinned,
        worker_arguments=more,
    )
