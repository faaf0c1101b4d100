"""Recordings as ``streamsim-validate capture`` writes them, of programs that a profiler has seen that costs nothing.

Records with the fields of cupti-python's go the way of real ones: through the runner's copy of them and its lines.
"""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from fake_gpu import cupti
from fake_gpu.cupti import NONE_32, NONE_64, ActivityKind, StreamFlag, record
from perfect_profiler import profiled

from streamsim.compiled import simulate_one_of_many
from streamsim.device import changed, load_device
from streamsim.program import Copy, HostWork, Kernel, Schedule, StreamKind, Synchronize
from streamsim.recorded import NONE, CallKind, CopyDirection, CopyMemory, Recording, WorkKind
from streamsim_validate.gpu.runner import Lines, Recorder

SYNCHRONISES = {
    CallKind.SYNCHRONIZE_DEVICE: ("cudaDeviceSynchronize", 4),
    CallKind.SYNCHRONIZE_STREAM: ("cudaStreamSynchronize", 3),
    CallKind.SYNCHRONIZE_EVENT: ("cudaEventSynchronize", 1),
    CallKind.WAIT: ("cudaStreamWaitEvent", 2),
}
FLAGS = {"legacy": StreamFlag.NULL, "blocking": StreamFlag.DEFAULT, "non-blocking": StreamFlag.NON_BLOCKING}
MEMORIES = {CopyMemory.PAGEABLE: 1, CopyMemory.PINNED: 2}
CONTEXT = 1
Range = tuple[str, int, int]


def captured(
    records: Iterable[Any], ranges: Sequence[Range] = (), untraced: Sequence[tuple[int, str, int, int]] = ()
) -> bytes:
    """The file of these records, of the program's named ranges, and of those of its untraced runs, by their numbers."""
    recorder = Recorder(cupti)
    recorder.take(records)
    with tempfile.TemporaryDirectory() as folder:
        lines = Lines(str(Path(folder, "capture")), tool="CUPTI, cupti-python 13.0.1", program="my_program.py")
        recorder.write(lines)
        lines.rows("ranges", ("start", "end", "thread", "name", "by"), [(a, b, 0, name, 0) for name, a, b in ranges])
        rows = [(run, start, end, 0, name) for run, name, start, end in untraced]
        lines.rows("untraced", ("run", "start", "end", "thread", "name"), rows)
        lines.close()
        return Path(folder, "capture").read_bytes()


def records_of(recording: Recording) -> Iterator[Any]:
    """What CUPTI hands over of a program on one card, which :mod:`perfect_profiler` has recorded."""
    (card,) = recording.cards
    name = card.name or "a card"
    yield record(ActivityKind.DEVICE, id=card.id, name=name, num_multiprocessors=132, num_memcpy_engines=3)
    for stream in recording.streams:
        if stream.kind == "legacy":
            yield record(ActivityKind.CONTEXT, context_id=CONTEXT, device_id=card.id, null_stream_id=stream.id)
        else:
            yield record(ActivityKind.STREAM, context_id=CONTEXT, stream_id=stream.id, flag=FLAGS[stream.kind])
    yield from _work(recording)
    calls = recording.calls
    for row, (kind, of) in enumerate(zip(calls.kind.tolist(), calls.stream.tolist(), strict=True)):
        called, number = SYNCHRONISES.get(kind, (recording.names[calls.name[row]], 0))
        thread = recording.threads[calls.thread[row]]
        where = {"process_id": thread.process, "thread_id": thread.id, "correlation_id": row + 1}
        times = {"start": int(calls.start_ns[row]), "end": int(calls.end_ns[row])}
        yield record(ActivityKind.RUNTIME, cbid=cupti.number_of(called), **times, **where)
        stream_id = NONE_32 if of == NONE or kind == CallKind.SYNCHRONIZE_DEVICE else recording.streams[of].id
        mark = {"context_id": CONTEXT, "correlation_id": row + 1, "stream_id": stream_id}
        if kind == CallKind.RECORD:
            yield record(ActivityKind.CUDA_EVENT, event_id=5, cuda_event_sync_id=row + 1, **mark)
        elif number:
            of_record = int(calls.record[row])
            event = {"cuda_event_id": 5, "cuda_event_sync_id": of_record + 1}
            nothing = {"cuda_event_id": NONE_32, "cuda_event_sync_id": NONE_64}
            yield record(
                ActivityKind.SYNCHRONIZATION, type=number, **mark, **times, **(nothing if of_record == NONE else event)
            )


def _work(recording: Recording) -> Iterator[Any]:
    work = recording.work
    for row, kind in enumerate(work.kind.tolist()):
        times = {"start": int(work.start_ns[row]), "end": int(work.end_ns[row])}
        where = {"device_id": 0, "context_id": CONTEXT, "stream_id": recording.streams[work.stream[row]].id}
        where |= {"correlation_id": int(work.call[row]) + 1, **times}
        if kind == WorkKind.COPY:
            memory, is_in = MEMORIES[CopyMemory(work.memory[row])], work.direction[row] == CopyDirection.H2D
            ends = {"src_kind": memory, "dst_kind": 3} if is_in else {"src_kind": 3, "dst_kind": memory}
            size = int(work.bytes[row])
            yield record(ActivityKind.MEMCPY, bytes=size, copy_kind=int(work.direction[row]), **ends, **where)
        else:
            shape = {
                f"{what}_{axis}": int(column[row, k])
                for what, column in (("grid", work.grid), ("block", work.block))
                for k, axis in enumerate("xyz")
            }
            name = recording.names[work.name[row]]
            yield record(ActivityKind.CONCURRENT_KERNEL, name=name, **shape, **where)


# The program of the guide: what a card would give


BATCHES, BATCH_BYTES, KERNELS, STREAMS, TRACED_S = 16, 4 << 20, 12, 4, 4.5e-6
TRACED = ("copy", "kernel", "synchronize")  # calls


def of_the_guide(changed_program: bool) -> bytes:
    """Its capture, simulated on the profile of an H200: batches one by one, or over four streams that nothing holds.

    Recording makes each call take 4.5 us more.
    """
    ops: list[Any] = []
    for batch in range(BATCHES):
        stream = 1 + batch % STREAMS if changed_program else 0
        more: dict[str, Any] = {"blocking": not changed_program}
        ops += [HostWork(6e-6), Copy("h2d", BATCH_BYTES, stream, **more)]
        for _ in range(KERNELS):
            ops += [HostWork(3e-6), Kernel(stream, "score", duration_s=12e-6)]
        ops += [] if changed_program else [HostWork(4e-6), Synchronize()]
        ops += [HostWork(4e-6), Copy("d2h", BATCH_BYTES, stream, **more)]
    ops += [HostWork(4e-6), Synchronize()] * changed_program
    kind: StreamKind = "non-blocking"
    schedule = Schedule(tuple(ops), (kind,) * STREAMS if changed_program else ())
    device = load_device("h200")
    costs = {f"host.{call}_s": getattr(device.host, f"{call}_s") + TRACED_S for call in TRACED}
    was, slow = simulate_one_of_many(schedule, device), simulate_one_of_many(schedule, changed(device, costs))
    lengths = [round(max(found.makespan_s, found.host_s) * 1e9) for found in (slow, was)]
    whole = profiled(slow)
    whole.work.grid.flags.writeable = True
    whole.work.grid[whole.work.kind == WorkKind.KERNEL] = (4096, 1, 1)
    card = msgspec.structs.replace(whole.cards[0], name="NVIDIA H200")
    whole = msgspec.structs.replace(whole, cards=(card,))
    return captured(records_of(whole), [("all", 0, lengths[0])], [(0, "all", 0, lengths[1])])
