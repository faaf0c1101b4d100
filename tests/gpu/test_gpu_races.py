"""What the check calls a race does give wrong output, and its repaired form the right one.

On a card the race is lost for certain: whatever should come first stands behind a kernel that spins for far longer
than the host takes to issue the rest. The emulated card runs the same schedules in random orders that CUDA allows.
"""

from pathlib import Path

import pytest
from fake_gpu.cuda import fake_gpu, replayed

from streamsim.errors import InputError
from streamsim.program import Buffer, Copy, Kernel, Op, Region, Schedule, Synchronize
from streamsim.races import check, repaired
from streamsim_validate.gpu import Bench, Gpu, Replayer, prepare
from streamsim_validate.records import Entry, read_record
from streamsim_validate.run import Planned

LATE = Kernel(1, duration_s=0.05, fill=0.01)  # stream 1 is late; a launch takes microseconds
N = 1 << 16
BUFFERS = (*(Buffer(name, N, "pinned") for name in ("a", "b", "back")), Buffer("card", N, "device"))
CARD = Region("card", 0, N)


def h2d(stream: int, host: str, blocking: bool = False) -> Copy:
    return Copy("h2d", N, stream, Region(host, 0, N), CARD, blocking)


def d2h(stream: int) -> Copy:
    return Copy("d2h", N, stream, Region("back", 0, N), CARD)


# Each kind, and the two ops that race. Done in issue order, "back" gets the content of a, a and b in turn.
PROGRAMS: dict[str, tuple[tuple[Op, ...], tuple[int, int]]] = {
    # the copy back overtakes the copy that brings the data, and reads what was there before
    "read-after-write": ((LATE, h2d(1, "a"), d2h(2)), (1, 2)),
    # the next data overwrites what has not been copied back yet
    "write-after-read": ((h2d(1, "a", blocking=True), LATE, d2h(1), h2d(2, "b")), (2, 3)),
    # the older data comes last; the copy back is in order with both
    "write-after-write": ((LATE, h2d(1, "a"), h2d(2, "b"), Synchronize(), d2h(2)), (1, 2)),
}


def racy(kind: str) -> Schedule:
    ops, _ = PROGRAMS[kind]
    return Schedule((*ops, Synchronize()), ("non-blocking",) * 2, BUFFERS, name=kind)


def both(kind: str, gpu: Gpu) -> list[Entry]:
    """The racy form and the repaired one."""
    schedule = racy(kind)
    fixed = repaired(schedule, check(schedule))
    return replayed([Planned("racy", schedule), Planned("fixed", fixed)], gpu, 2, allow_races=True)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_race_gives_wrong_output_and_its_repaired_form_does_not(gpu: Gpu, kind: str) -> None:
    lost, fixed = both(kind, gpu)
    assert "wrong output: byte" in lost.status
    assert lost.wall_s == ()
    assert (fixed.status, fixed.verified, len(fixed.wall_s)) == ("ok", True, 2)


# As recorded on an H200

RECORD = Path(__file__).parents[2] / "validate" / "campaigns" / "records" / "races-h200.json.gz"


@pytest.mark.parametrize("kind", ["read-after-write", "write-after-read"])
def test_a_card_has_lost_the_race_and_not_its_repaired_form(kind: str) -> None:
    (run,) = read_record(RECORD).runs
    entries = {entry.build(): entry for entry in run.entries}
    lost = entries[racy(kind)]
    assert "wrong output: byte" in lost.status
    assert lost.wall_s == ()
    (fixed,) = (entry for program, entry in entries.items() if program.name == f"{kind}, repaired")
    assert fixed.build().ops == repaired(racy(kind), check(racy(kind))).ops
    assert (fixed.status, fixed.verified, len(fixed.wall_s)) == ("ok", True, run.repeats)


# On the emulated card


@pytest.mark.parametrize("kind", PROGRAMS)
def test_on_an_emulated_card_luck_decides_a_race_and_nothing_its_repaired_form(kind: str) -> None:
    outcomes = [[result.status for result in both(kind, fake_gpu(seed)[0])] for seed in range(12)]
    assert any("wrong output: byte" in lost for lost, _ in outcomes)
    assert {fixed for _, fixed in outcomes} == {"ok"}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_race_is_refused_in_one_line_and_nothing_of_it_runs(kind: str) -> None:
    gpu, cuda = fake_gpu()
    bench = Bench(gpu)
    schedule = racy(kind)
    prepare(bench, [schedule])
    cuda.log.clear()
    with pytest.raises(InputError) as refused:
        Replayer(schedule, bench)
    message = str(refused.value)
    first, second = PROGRAMS[kind][1]
    assert message.startswith(f"{kind}: race: ops[{second}] ")
    for part in (
        f"ops[{first}] ",
        f"{kind} of bytes 0..{N} of 'card'",
        "record an event in stream 1",
        "streamsim check",
    ):
        assert part in message
    assert "\n" not in message
    assert cuda.log == []
    assert Replayer(repaired(schedule, check(schedule)), bench).verify()
