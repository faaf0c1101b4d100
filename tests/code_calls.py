"""Programs that were written: loaded, run and checked; and their calls beside those of a schedule."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from streamsim.code import VERIFIED
from streamsim.program import Copy, HostWork, Kernel, RecordEvent, Schedule, Synchronize, WaitEvent

Call = tuple[Any, ...]
RUFF = shutil.which("ruff", path=f"{sys.prefix}/bin") or shutil.which("ruff")

SYNCHRONISE: Call = ("synchronise",)
CLOCK: Call = ("clock",)  # the program reads it


def loaded(text: str, modules: dict[str, Any], name: str = "generated", **names: Any) -> dict[str, Any]:
    """The global names of a program that imports these modules; ``names`` take the place of its own."""
    found: dict[str, Any] = {"__name__": name}
    with pytest.MonkeyPatch.context() as patch:
        for module, stand_in in modules.items():
            patch.setitem(sys.modules, module, stand_in)
        exec(compile(text, "the program", "exec"), found)
    found.update(names)
    return found


def measured(text: str, modules: dict[str, Any], given: dict[str, int], **names: Any) -> dict[str, Any]:
    """What ``measure`` of a program gives with these arguments."""
    found = loaded(text, modules, **names)
    result: dict[str, Any] = found["measure"](**found["DEFAULTS"] | given)
    assert len(result["issue_s"]) == len(result["wall_s"]) == (found["DEFAULTS"] | given)["repeat"]
    assert all(map(float.__le__, result["issue_s"], result["wall_s"]))
    return result


def printed(text: str, modules: dict[str, Any], arguments: str, capsys: Any) -> tuple[int, dict[str, Any], str]:
    """The exit code of a program, the line of JSON that it prints (empty: none), and its error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["pipeline.py", *arguments.split()])
        with pytest.raises(SystemExit) as ended:
            loaded(text, modules, "__main__")
    out, error = capsys.readouterr()
    assert out.count("\n") <= 1
    return int(str(ended.value.code)), json.loads(out or "{}"), error


def assert_formatted_and_linted(texts: Iterable[str], folder: Path) -> None:
    """With the settings of ruff that many projects have, but for the length of lines with many arrays."""
    for k, text in enumerate(texts):
        (folder / f"program_{k}.py").write_text(text)
    assert RUFF, "ruff is one of the tests' requirements"
    more = ["--select", "E,F,W,I,N,UP,B,C4,PT,RET,RUF,SIM,TC,PERF"]
    for arguments in (["format", "--check"], ["check"], ["check", *more]):
        call = [RUFF, *arguments, "--line-length", "320", "--isolated", str(folder)]
        done = subprocess.run(call, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def runs_of(log: list[Call], is_graph: bool, repeat: int = 2) -> tuple[list[list[Call]], list[Call]]:
    """The calls of each run, up to the synchronisation that ends it, and those that were captured.

    The clock is read before its first call, behind its last one, and behind the synchronisation, which is all that is
    called between those two. The serial program and the runs that are verified each follow arrays that are cleared, and
    a synchronisation; then 1 + repeat are timed, back to back: nothing is called between them.
    """
    captured: list[Call] = []
    if is_graph:
        begin, end = log.index(("capture",)), log.index(("captured",))
        captured, log = log[begin + 1 : end], log[:begin] + log[end + 1 :]
    clocks = [k for k, call in enumerate(log) if call == CLOCK]
    parts = [log[a + 1 : b] for a, b in zip([-1, *clocks], [*clocks, len(log)], strict=True)]
    *before, after = parts[::3]
    assert before == [[SYNCHRONISE]] * (1 + VERIFIED) + [[]] * (1 + repeat)
    assert not after
    assert parts[2::3] == [[SYNCHRONISE]] * (2 + VERIFIED + repeat)
    return parts[1::3], captured


def with_events_named(calls: list[Call]) -> list[Call]:
    """Events by the order in which they are first met."""
    names: dict[object, int] = {}
    named: list[Call] = []
    for call in calls:
        place = {"record": 1, "wait": 1}.get(call[0], 2 if call[:2] == ("synchronise", "event") else None)
        if place is None:
            named.append(call)
        else:
            name = names.setdefault(call[place], len(names))
            named.append((*call[:place], name, *call[place + 1 :]))
    return named


def calls_of(schedule: Schedule) -> list[Call]:
    """The calls that a schedule asks for, but for the last synchronisation of the card."""
    ops = list(schedule.ops)
    while ops and isinstance(ops[-1], Synchronize) and (schedule.launch == "graph" or ops[-1] == Synchronize()):
        ops.pop()
    calls: list[Call] = []
    own = {"h2d": 0, "d2h": 0}  # copies that name no memory have memory of their own, one after another
    for op in ops:
        match op:
            case Copy(direction=direction, bytes=n_bytes, stream=stream):
                sides = [own[direction] if side is None else side.offset for side in (op.host, op.device)]
                own[direction] += n_bytes * (None in (op.host, op.device))
                calls.append((direction, n_bytes, *sides, stream))
                calls += [("synchronise", "stream", stream)] if op.blocking else []
            case Kernel():
                calls.append(("kernel", op.stream))
            case HostWork():
                calls.append(("work", round(op.duration_s * 1e9)))
            case RecordEvent():
                calls.append(("record", op.event, op.stream))
            case WaitEvent():
                if schedule.launch == "live" or any(call[:2] == ("record", op.event) for call in calls):
                    calls.append(("wait", op.event, op.stream))  # else it waits for nothing, and cannot be captured
            case Synchronize():
                what = [(name, getattr(op, name)) for name in ("stream", "event") if getattr(op, name) is not None]
                calls.append(("synchronise", *what[0]) if what else SYNCHRONISE)
    return calls


def assert_are_the_calls_of(schedule: Schedule, log: list[Call], streams: int, is_forked_once: bool = False) -> None:
    """The calls that a program with so many streams made are those of its schedule, in their order.

    ``is_forked_once``: all streams of a graph wait for one event of the first, not each for one of its own, and it
    waits for theirs when all are recorded.
    """
    runs, captured = runs_of(log, schedule.launch == "graph")
    wanted = calls_of(schedule)
    serial, *rest = runs
    assert len(serial) == len(wanted)
    numbers = {call[-1] for call in serial if call[0] in ("h2d", "d2h", "kernel")}
    assert len(numbers) <= 1, "the serial program has one stream"
    if schedule.launch == "graph":
        assert rest == [[("graph",)]] * len(rest)
        others = range(2, streams + 1)
        fork = [(call, f"fork {k}", stream) for k in others for call, stream in (("record", 1), ("wait", k))]
        join = [(call, f"join {k}", stream) for k in others for call, stream in (("record", k), ("wait", 1))]
        if is_forked_once:
            fork = [("record", "fork", 1), *(("wait", "fork", k) for k in others)]
            join = [*(("record", f"join {k}", k) for k in others), *(("wait", f"join {k}", 1) for k in others)]
        rest, wanted = [captured], [*fork, *wanted, *join]
    for calls in rest:
        assert with_events_named(calls) == with_events_named(wanted)
