"""The builder: small programs and the schedules that they are, by hand; and whatever a schedule can say it can say."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from strategies import schedules

from streamsim import program


def test_slices_are_byte_ranges() -> None:
    p = program.Program()
    x, s = p.device("x", 100), p.stream()
    assert [x[0:40], x[40:], x[:], x[10:20], x[20:60][10:20]] == [
        program.Region("x", 0, 40),
        program.Region("x", 40, 60),
        program.Region("x", 0, 100),
        program.Region("x", 10, 10),
        program.Region("x", 30, 10),
    ]
    s.kernel(1e-6, reads=[x[:10], x[50:60]], writes=x[20:])
    reads = (program.Region("x", 0, 10), program.Region("x", 50, 10))
    assert p.schedule().ops == (program.Kernel(1, duration_s=1e-6, reads=reads, writes=(program.Region("x", 20, 80),)),)


def rebuilt(schedule: program.Schedule) -> program.Schedule:
    """The same schedule, written with the builder."""
    p = program.Program()
    streams = [p.legacy_stream, *(p.stream(blocking=kind == "blocking") for kind in schedule.streams)]
    events = [p.event() for _ in range(schedule.events)]
    declare = {"device": p.device, "pinned": p.pinned, "pageable": p.pageable}
    memory = {buffer.name: declare[buffer.memory](buffer.name, buffer.bytes) for buffer in schedule.buffers}

    def part(region: program.Region) -> program.Region:
        return memory[region.buffer][region.offset : region.offset + region.bytes]

    for op in schedule.ops:
        if isinstance(op, program.Synchronize):
            if op.event is not None:
                events[op.event].synchronize()
            else:
                (p if op.stream is None else streams[op.stream]).synchronize()
            continue
        if isinstance(op, program.HostWork):
            p.host_work(op.duration_s, op.name)
            continue
        assert not isinstance(op, program.WaitThread)
        assert op.stream is not None
        stream = streams[op.stream]
        if isinstance(op, program.Copy):
            host, card = (op.bytes if end is None else part(end) for end in (op.host, op.device))
            issue, ends = (stream.copy_in, (card, host)) if op.direction == "h2d" else (stream.copy_out, (host, card))
            issue(*ends, blocking=op.blocking)
        elif isinstance(op, program.Kernel):
            names = ("elements", "parameter", "fill", "threads", "share", "parts")
            more: dict[str, Any] = {name: getattr(op, name) for name in names}
            more |= {"reads": list(map(part, op.reads)), "writes": list(map(part, op.writes))}
            stream.kernel(op.duration_s, op.name, **more)
        elif isinstance(op, program.RecordEvent):
            stream.record(events[op.event])
        else:
            stream.wait(events[op.event])
    return p.schedule(schedule.name, launch=schedule.launch, unchunked=schedule.unchunked)


@st.composite
def any_schedules(draw: st.DrawFn) -> program.Schedule:
    """Those of the other tests of one thread, their kernels on memory, with a name and what they were cut from."""
    plain = draw(schedules(most=30, streams=6, one_thread=True))
    on_card = [buffer.name for buffer in plain.buffers if buffer.memory == "device"]
    region = st.builds(program.Region, st.sampled_from(on_card), st.integers(0, 8), st.integers(1, 8))
    used = {field: tuple(draw(st.lists(region, max_size=3))) for field in ("reads", "writes")}
    ops = tuple(replace(op, **used) if isinstance(op, program.Kernel) else op for op in plain.ops)
    unchunked = draw(st.sampled_from((None, program.Schedule((program.Synchronize(),)))))
    return replace(plain, ops=ops, name=draw(st.text(max_size=5)), unchunked=unchunked)


@given(any_schedules())
def test_whatever_a_schedule_says_the_builder_says(schedule: program.Schedule) -> None:
    assert rebuilt(schedule) == schedule
