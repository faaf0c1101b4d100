"""Programs make the calls of their schedules, verify what they compute, and read as people write them."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from code_calls import assert_are_the_calls_of, assert_formatted_and_linted, measured, printed
from effort import examples
from fake_gpu.arrays import Time, fake_cupy, fake_torch
from fake_gpu.card import Call, Card
from hypothesis import given
from hypothesis import strategies as st
from layered import Times, directions, layers_of, models, names_of
from msgspec.structs import replace
from strategies import plan, schedules
from whole_workloads import whole_programs

from streamsim import program
from streamsim.code import Language, code_of, code_of_schedule
from streamsim.errors import InputError

PYTHON: tuple[Language, ...] = ("cupy", "pytorch")
FAKES = {"cupy": fake_cupy, "pytorch": fake_torch}
CLANG_FORMAT = shutil.which("clang-format", path=f"{sys.prefix}/bin") or shutil.which("clang-format")
RING = program.Config("depth-first", 16, 4, 3)


def configs(launch: program.Launch = "live") -> list[program.Config]:
    """Every pattern, issued live or as a graph."""
    known = (
        program.Config("depth-first", 16, 4),
        program.Config("breadth-first", 16, 4),
        RING,
        program.Config("prefetch", 16),
    )
    found = [replace(config, launch=launch) for config in (*known, program.Config("relay", 16, 4))]
    return found if launch == "graph" else [program.Config("serial", 16), *found]


def run(text: str, language: str, seed: int = 0) -> tuple[dict[str, Any], list[Call], int]:
    """What ``measure`` of a Python program gives on an emulated card, its calls there, and how many streams it made."""
    card = Card(seed)

    def host_work(seconds: float) -> None:
        card.called("work", round(seconds * 1e9))

    given = {"repeat": 2} | ({"work": 2} if '"work": ' in text else {})
    result = measured(text, FAKES[language](card), given, time=Time(card), host_work=host_work)
    assert all(map(float.__lt__, result["issue_s"], result["wall_s"]))
    return result, card.log, len(card.streams) - 1


def assert_makes_the_calls(text: str, language: str, schedule: program.Schedule, seed: int = 0) -> bool:
    """Whether it says that its output is right; its calls are those of the schedule, in their order."""
    result, log, streams = run(text, language, seed)
    assert_are_the_calls_of(schedule, log, streams)
    return bool(result["verified"])


@examples(150)
@given(whole_programs(sizes=(4, 8, 12, 40)), st.sampled_from(PYTHON), st.integers(0, 9))
def test_a_program_makes_the_calls_of_its_pattern_and_verifies_its_output(
    asked: tuple[program.Workload, program.Config], language: Language, seed: int
) -> None:
    # Bytes, offsets on the host and on the card, streams and events of each call, op for op; and with no wait missing
    # the output is right in whatever order the card runs what it may.
    workload, config = replace(asked[0], host_load_s=0.0), asked[1]  # a program shares a load out equally
    try:
        text = code_of(workload, config, language)
    except InputError as error:
        of_pytorch = " reads more than" in str(error) and language == "pytorch"
        assert of_pytorch or " pieces " in str(error) or "needs an array" in str(error)  # noqa: PT017
        return
    assert assert_makes_the_calls(text, language, config.schedule(workload), seed)


def of_floats(schedule: program.Schedule) -> program.Schedule:
    """The same with 4 bytes for each one."""

    def region(one: program.Region | None) -> program.Region | None:
        return None if one is None else program.Region(one.buffer, 4 * one.offset, 4 * one.bytes)

    ops = [
        replace(op, bytes=4 * op.bytes, host=region(op.host), device=region(op.device))
        if isinstance(op, program.Copy)
        else op
        for op in schedule.ops
    ]
    buffers = tuple(program.Buffer(buffer.name, 1024, buffer.memory) for buffer in schedule.buffers)
    return replace(schedule, ops=tuple(ops), buffers=buffers)


@examples(80)
@given(schedules(one_thread=True), st.sampled_from(PYTHON))
def test_a_schedule_is_written_out_call_by_call(schedule: program.Schedule, language: Language) -> None:
    schedule = of_floats(schedule)
    if not any(isinstance(op, program.Copy | program.Kernel) for op in schedule):
        with pytest.raises(InputError, match="nothing is copied or run"):
            code_of_schedule(schedule, language)
        return
    if language == "pytorch" and "blocking" in schedule.streams:
        with pytest.raises(InputError, match="streams of PyTorch are non-blocking"):
            code_of_schedule(schedule, language)
        return
    assert_makes_the_calls(code_of_schedule(schedule, language), language, schedule)


@examples(60)
@given(models(), directions, st.sampled_from(("pinned", "pageable")), st.sampled_from(PYTHON), st.integers(0, 9))
def test_streamed_layers_are_written_out_and_verified(
    model: tuple[list[Times], frozenset[int], int, int],
    direction: Any,
    memory: program.HostMemory,
    language: Language,
    seed: int,
) -> None:
    times, resident, depth, passes = model
    layers = layers_of(*((4 * copied, run) for copied, run in times), passes=passes, direction=direction)
    schedule = program.Offload(depth, names_of(resident), memory).schedule(layers)
    text = code_of_schedule(schedule, language)
    is_pinned = "pin_memory" in text or "empty_pinned" in text
    assert is_pinned is (memory == "pinned" and len(resident) < len(times))
    assert assert_makes_the_calls(text, language, schedule, seed)


@pytest.mark.parametrize("language", PYTHON)
@pytest.mark.parametrize("launch", program.LAUNCHES)
def test_a_pattern_written_out_verifies_its_output(language: Language, launch: program.Launch) -> None:
    for config in configs(launch):
        schedule = replace(config, chunks=5).schedule(program.workload_of_sizes([400], ["1ms"], [400]))
        assert assert_makes_the_calls(code_of_schedule(schedule, language), language, schedule)


@pytest.mark.parametrize("language", PYTHON)
def test_a_missing_wait_is_found(language: Language) -> None:
    # Stream 2 computes on what stream 1 loads, without waiting for it: in some of the orders that the card may run
    # them in, the kernel is first, and its output is of zeros.
    host, card, result, out = (program.Region(name, 0, 64) for name in ("h_x", "d_x", "d_y", "h_y"))
    ops = (
        program.Copy("h2d", 64, 1, host, card),
        program.Kernel(2, duration_s=1e-6, reads=(card,), writes=(result,)),
        program.Copy("d2h", 64, 2, out, result),
    )
    buffers = tuple(
        program.Buffer(one.buffer, 64, "device" if one.buffer.startswith("d") else "pinned")
        for one in (host, card, result, out)
    )
    for some, verified in (
        (ops, False),
        ((ops[0], program.RecordEvent(0, 1), program.WaitEvent(0, 2), *ops[1:]), True),
    ):
        text = code_of_schedule(plan(*some, streams=2, buffers=buffers), language)
        assert {run(text, language, seed)[0]["verified"] for seed in range(8)} == {verified}


def test_a_program_takes_other_numbers_and_prints_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    text, modules = code_of(program.workload_of_sizes([400], ["1ms"], [400]), RING, "cupy"), fake_cupy(Card())
    code, said, _ = printed(text, modules, "--chunks 7 --streams 2 --repeat 3 --work 2", capsys)
    assert (code, said["verified"], len(said["wall_s"])) == (0, True, 3)
    assert [said[name] for name in ("program", "chunks", "streams", "buffers")] == ["ring in cupy", 7, 2, 3]
    code, said, error = printed(text, modules, "--chunks 26", capsys)  # 25 pieces of 16 bytes
    assert (code, said) == (2, {})
    assert "at most 25 chunks" in error


class RoundsClock:
    """A clock that goes on by what a launch takes, and by each of its rounds."""

    def __init__(self, launch_s: float, round_s: float) -> None:
        self.now_s, self.launch_s, self.round_s = 0.0, launch_s, round_s
        self.rounds: list[int] = []

    def kernels(self, *arrays_and_work: Any) -> None:
        self.rounds.append(arrays_and_work[-1])
        self.now_s += max(self.launch_s, self.rounds[-1] * self.round_s)

    def perf_counter(self) -> float:
        return self.now_s


@pytest.mark.parametrize("language", PYTHON)
@pytest.mark.parametrize(("launch_s", "rounds"), [(1e-6, 500), (3e-4, 1)])  # what a launch moves takes too long already
def test_the_stand_in_takes_the_time_of_the_kernels(language: Language, launch_s: float, rounds: int) -> None:
    # 1 ms of kernels in 5 chunks, of which a round takes 400 ns: 500 rounds each.
    text = code_of(program.workload_of_sizes([400], ["1ms"], [400]), program.Config("depth-first", 5, 2), language)
    clock = RoundsClock(launch_s, 4e-7)
    result = measured(text, FAKES[language](Card()), {}, time=clock, kernels=clock.kernels)
    assert result["work"] == clock.rounds[-1]
    if rounds > 1:
        assert clock.rounds[-5:] == [rounds] * 5
        assert result["wall_s"] == pytest.approx([1e-3] * 10)
    else:
        assert clock.rounds[-1] < 0.4 * 256  # fewer with each trial


# How they read


def every_text(language: Language) -> list[str]:
    """Programs of every pattern, live and as graphs, and of kinds of workloads; and patterns written out."""
    texts = []
    for workload in (
        program.workload_of_sizes(h2d=["64MiB"], kernels=["0.57ms"], d2h=["64MiB"]),
        program.workload_of_sizes([4096, 8192], ["1ms", "2ms/3"], [4096, 400], h2d_once=[64], d2h_once=[640]),
        program.workload_of_sizes(kernels=["1ms"] * 2, d2h=["1MiB"]),
        program.workload_of_sizes(["1MiB"], ["1ms"], host_work="3ms", host_load="48ms"),
        program.workload_of_sizes(h2d=["1MiB"]),
        program.workload_of_sizes(h2d=["8GiB"] * 3, kernels=["1ms"] * 2, d2h=["16GiB"] * 4),
    ):
        for launch in program.LAUNCHES[: 1 if workload.has_host_work else None]:
            for config in configs(launch):
                texts.append(code_of(workload, config, language))
                texts.append(code_of_schedule(replace(config, chunks=3).schedule(workload), language))
        texts.append(code_of(workload, program.Config("depth-first", 4, 2, None, "pageable"), language))
    return texts


@pytest.mark.parametrize("language", PYTHON)
def test_python_is_formatted_and_linted(language: Language, tmp_path: Path) -> None:
    assert_formatted_and_linted(every_text(language), tmp_path)


@pytest.mark.skipif(CLANG_FORMAT is None, reason="no clang-format; pip install clang-format")
def test_cuda_is_formatted(tmp_path: Path) -> None:
    assert CLANG_FORMAT
    for k, text in enumerate(every_text("cuda-c++")):
        (tmp_path / f"program_{k}.cc").write_text(text)
    call = [CLANG_FORMAT, "--style={BasedOnStyle: Google, ColumnLimit: 0}", "--dry-run", "--Werror"]
    done = subprocess.run([*call, *tmp_path.glob("*.cc")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
