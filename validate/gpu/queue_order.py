"""The hardware queues, assigned to streams as in a new process.

Streams own hardware queues. If there are more streams than queues, streams take queues from each other. So the queue of
a stream depends on all earlier work of the process. This decides in which order a copy engine comes to a program's
streams, and which streams share a queue. On an H200 with 8 queues, 8 chunks of 4 MiB handed on by events over 8 streams
take 0.87 ms in a process of their own, and up to 1.22 ms behind programs over more streams.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence

from streamsim.program import LEGACY_STREAM, Schedule
from streamsim_validate.gpu.card import Gpu
from streamsim_validate.gpu.launches import THREADS_PER_BLOCK, Argument

COPY_BYTES = 64 << 10
GATE_BYTES_A_QUEUE = 1 << 20  # copied while a copy and an event are issued to each queue


class QueueOrder:
    """A keeper of the order of a card's queues.

    ``queues``: their number in front of every engine; with fewer than two there is nothing to do. ``spin``: returns the
    address of the compiled kernel :data:`streamsim_validate.gpu.kernels.SPIN`.
    """

    def __init__(self, gpu: Gpu, queues: int, spin: Callable[[], int]) -> None:
        self._gpu = gpu
        self._cuda = gpu.cuda
        self._queues = queues
        self._spin = spin
        self._in_order = False
        self._holders: list[int] = []  # streams that take every queue for a moment
        self._events: list[int] = []
        self._host = self._device = 0  # addresses
        self._argument = Argument(1, 0, (), ())  # at once

    def before(self, schedule: Schedule) -> None:
        """Restore the order if needed. Call this before each replay of ``schedule``."""
        if self._queues < 2:
            return
        disturbs = self._disturbs(schedule)
        if disturbs or not self._in_order:
            self._restore()
        self._in_order = not disturbs

    def lose(self) -> None:
        """Note that other work has used the queues."""
        self._in_order = False

    def close(self) -> None:
        """Free everything. What a dead context refuses to destroy dies with it."""
        with contextlib.suppress(Exception):
            for stream in self._holders:
                self._cuda.streamDestroy(stream)
            for event in self._events:
                self._cuda.eventDestroy(event)
            if self._device:
                self._cuda.free(self._device)
                self._cuda.freeHost(self._host)
        self._holders, self._events, self._host, self._device = [], [], 0, 0

    def _disturbs(self, schedule: Schedule) -> bool:
        """Return whether it uses more streams than own a queue each, or lets the driver choose."""
        return (
            schedule.launch == "graph"
            or len(schedule.streams) > self._queues
            or any(kind != "non-blocking" for kind in schedule.streams)
            or LEGACY_STREAM in schedule.used_streams
            or bool(schedule.pageable_names)
        )

    def _restore(self) -> None:
        """Give stream i of all schedules the queue number i of each engine, used last in this order.

        A stream without a queue takes the least recently used one. So streams of its own, the holders, take all queues.
        The order in which a copy engine serves them shows which holder has which queue. The holders use their queues in
        that order. Then the schedules' streams take them one after another. Kernels start in the order in which they
        become ready, whatever their queues' numbers.
        """
        if not self._holders:
            self._make()
        _, *streams = self._gpu.streams(["non-blocking"] * self._queues)
        for use in (self._copy_in, self._copy_out, self._launch):
            self._take(use, self._holders)
            self._take(use, self._holders if use == self._launch else self._served(use))
            self._take(use, streams)

    def _make(self) -> None:
        cuda, count = self._cuda, self._queues
        self._holders = [cuda.streamCreateWithFlags(cuda.streamNonBlocking) for _ in range(count)]
        self._events = [cuda.eventCreateWithFlags(cuda.eventDefault) for _ in range(count)]
        self._device = cuda.malloc(count * GATE_BYTES_A_QUEUE)
        self._host = cuda.hostAlloc(count * GATE_BYTES_A_QUEUE, cuda.hostAllocDefault)

    def _take(self, use: Callable[[int], None], streams: Iterable[int]) -> None:
        for stream in streams:
            use(stream)
        self._cuda.deviceSynchronize()

    def _served(self, copy: Callable[..., None]) -> Sequence[int]:
        """Return the holders in the order in which a copy engine serves their queues, from the first holder's on."""
        cuda, events = self._cuda, self._events
        copy(self._holders[0], len(self._holders) * GATE_BYTES_A_QUEUE)
        for holder, event in zip(self._holders, events, strict=True):
            copy(holder)
            cuda.eventRecord(event, holder)
        cuda.deviceSynchronize()
        late = [cuda.eventElapsedTime(events[0], event) for event in events]
        return [holder for _, holder in sorted(zip(late, self._holders, strict=True))]

    def _copy_in(self, stream: int, n_bytes: int = COPY_BYTES) -> None:
        self._cuda.memcpyAsync(self._device, self._host, n_bytes, self._cuda.memcpyHostToDevice, stream)

    def _copy_out(self, stream: int, n_bytes: int = COPY_BYTES) -> None:
        self._cuda.memcpyAsync(self._host, self._device, n_bytes, self._cuda.memcpyDeviceToHost, stream)

    def _launch(self, stream: int) -> None:
        address = self._argument.address
        self._cuda.launchKernel(self._spin(), 1, 1, 1, THREADS_PER_BLOCK, 1, 1, 0, stream, address, 0)


__all__ = ["QueueOrder"]
