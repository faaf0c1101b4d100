"""What the room refuses: a profile, a name, a front end or a setting is named in one line with its value."""

import math
import tomllib
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import pytest
import tomli_w
from msgspec import to_builtins
from msgspec.structs import replace
from refusals import refusal, refusal_of
from strategies import link, make_device

from streamsim import best, sweep
from streamsim.device import (
    Device,
    FieldSpec,
    FrontEnd,
    KernelCost,
    ProfileTable,
    changed,
    device_names,
    dump_device,
    load_device,
    parse_device,
    parse_settings,
    without,
)
from streamsim.program import Config, Workload, WorkloadKernel, parse_workload
from streamsim.search import Grid, evaluate

DEVICE, H200 = make_device(), load_device("h200")
LIBRARY = FrontEnd(2e-9, 3e-9, 0.0, 0.0, 0.0, 5e-9, "measured: by hand")
WITH_LIBRARY = replace(DEVICE, front_ends={"mine": LIBRARY})
Case = tuple[Callable[[], object], str, str]  # what to make, how the message begins, and what it must show


def change(path: str, value: object) -> Device:
    """The device with the number at ``path`` replaced."""
    part, _, field = path.rpartition(".")
    if part:
        field, value = part, replace(getattr(DEVICE, part), **{field: value})
    return replace(DEVICE, **{field: value})


class Fan(ProfileTable, frozen=True):
    """A table that no profile has."""

    delay_s: float
    spin_s: Annotated[float, FieldSpec(at_least=("delay_s",))]


# Numbers by their path, and what cannot stand there: the message begins with the field, and shows the value.
CHANGES: dict[str, object] = {
    "connections": 33,
    "copy_engines.connections": 33,
    "h2d.in_flight_bytes": 0,
    "schema_version": 2,
    "copy_engines.arbitration": "fair",
    "name": "a,b",
}
BAD_SOURCES = {"host.coffee_s": "assumed: hot", "host": "guessed: at night", "d2h": "measured:"}
FALL = (2e-6, 1e-6)  # a slope that would give kernels of negative time and share
PROFILES: list[Case] = [
    *((partial(change, path, bad), path.rpartition(".")[2], repr(bad)) for path, bad in CHANGES.items()),
    (lambda: link(latency=2, duplex_latency=1), "duplex_latency_s", "1e-09"),
    (lambda: change("h2d.duplex_bandwidth_bytes_per_s", 2e9), "duplex_bandwidth_bytes_per_s", "2e+09"),
    *(
        (partial(change, "sources", {**DEVICE.sources, name: source}), f"sources.{name}", repr(source))
        for name, source in BAD_SOURCES.items()
    ),
    *(
        (partial(change, "sources", {k: v for k, v in DEVICE.sources.items() if k != name}), begins, "source")
        for name, begins in (("connections", "connections"), ("d2h", "d2h."))
    ),
    (lambda: change("spread", {"host.coffee_s": 0.1}), "spread.host.coffee_s", "0.1"),
    (lambda: change("spread", {"host.copy_s": -0.1}), "spread.host.copy_s", "-0.1"),
    (lambda: KernelCost("k", 0, (10, 20), (1e-6,)), "elements", "(10, 20)"),
    (lambda: KernelCost("k", 0, (10, 20), (1e-6, 0.0)), "duration_s", "0.0"),
    (lambda: KernelCost("k", 0, (10, 20), FALL), "duration_s", ""),
    (lambda: Fan(1.0, 0.5), "spin_s = 0.5: below delay_s = 1", ""),
    (lambda: without(DEVICE, "wind"), "effect = 'wind': expected one of duplex, ", ""),
]

# Devices: their names, which list the shipped ones, and their paths.
NEITHER = "neither a shipped profile (" + ", ".join(device_names())
NAMES: list[Case] = [
    *(
        (partial(load_device, typed), f"device = {typed!r}: {NEITHER}", f"; did you mean {meant!r}?")
        for typed, meant in (("RTX309O", "rtx3090"), ("idael", "ideal"))
    ),
    *((partial(load_device, name), "device = ", NEITHER) for name in ("", "no/such/card", "h200\n", "\0", "1" * 5000)),
    (lambda: load_device("nowhere/h200.toml"), "nowhere/h200.toml: cannot read it: no such file", ""),
    (lambda: load_device("x" * 5000 + ".toml"), "x", ""),
]


# Front ends: of profiles in files, of devices' names and of workloads.
PLAIN = to_builtins(LIBRARY)
KNOWN = "calls, cuda-c++, cupy, pytorch, pytorch_eager"
JAX = Workload(1 << 18, (4,), (4,), (WorkloadKernel(duration_s=20e-6),), front_end="jax")


def of_several(third: Any) -> Device:
    """A profile whose third front end of four is as given."""
    tables = {"first": PLAIN, "second": PLAIN, "third": third, "fourth": PLAIN}
    return parse_device(tomli_w.dumps(tomllib.loads(dump_device(load_device("ideal"))) | {"front_ends": tables}))


def of_one(text: str) -> Device:
    """A profile whose front end has ``text`` in the place of a time."""
    return parse_device(dump_device(WITH_LIBRARY).replace("enter_s = 5e-09", text))


FRONT_ENDS: list[Case] = [
    (lambda: of_one('enter_s = "7 parsecs"'), "device: front_ends.mine.enter_s", "'7 parsecs'"),
    *(
        (partial(of_several, wrong), f"device: front_ends.third{said}", "")
        for wrong, said in (
            ({}, ".copy_s: is missing"),
            (PLAIN | {"copy_s": -1.0}, ".copy_s = -1.0: expected a number from 0 to 86400"),
            (PLAIN | {"tea_s": 1}, ".tea_s = 1: unknown field"),
        )
    ),
    (
        lambda: change("front_ends", {"mine": replace(LIBRARY, source="a friend")}),
        "front_ends.mine.source = 'a friend'",
        "measured",
    ),
    *(
        (make, f"front end = 'jax': expected one of {KNOWN}", "")
        for make in (
            lambda: load_device("h200:jax"),
            lambda: evaluate(JAX, [Config()], "h200"),
            lambda: best(JAX, "h200", Grid((1, 2, 4, 8), (1, 2))),
            lambda: sweep(JAX),
        )
    ),
    (lambda: parse_workload("inputs = [64]\nfront_end = 3\n", "workload.toml"), "workload.toml: front_end", "3"),
]


# Settings: in the library, and as commands say them.
HUGE = (16**5000, math.nan, True)  # no field holds them, so that nothing follows them
SETTINGS: list[Case] = [
    *(
        (partial(changed, H200, {name: value}), begins, "number from")
        for name, begins in (
            ("h2d.latency", "h2d.latency_s = "),
            ("link.bandwidth", "h2d.bandwidth_bytes_per_s = "),
            ("host.copy", "host.copy_s = "),
            ("d2h.in_flight", "d2h.in_flight_bytes = "),
        )
        for value in HUGE
    ),
]
TWICE = [
    (("host.copy=1us", "host.copy_s=2us"), "host.copy_s: set twice; keep one"),
    (
        ("link.latency=1us", "h2d.latency=2us"),
        "h2d.latency_s: set twice, by link.latency_s and h2d.latency_s; keep one",
    ),
]
SET = [
    ("h2d.__doc__=x", "'h2d.__doc__': no number or rule of a device profile"),
    ("h2d.bandwith=1GB/s", "'h2d.bandwith': no number or rule of a device profile; did you mean h2d.bandwidth?"),
    ("connections=4", "'connections': cannot be set here; use --connections"),
    ("host.copy", "set = 'host.copy': expected NAME=VALUE such as h2d.bandwidth=51GB/s"),
    ("host.copy=4GB/s", "host.copy_s = '4GB/s': expected a time"),
    ("host.copy=1us,2us", "host.copy = '1us,2us': expected one value; streamsim sweep takes several"),
    ("d2h.duplex_bandwidth=9TB/s", "d2h.duplex_bandwidth_bytes_per_s = 9e+12: above bandwidth_bytes_per_s"),
]
SWEPT = [
    ("h2d.latency_s=0..8us*2", "h2d.latency_s = '0..8us*2': no factor leads away from 0"),
    ("copy_engines.arbitration=foo", "copy_engines.arbitration = 'foo': expected one of issue-order, "),
]
SIZES = ["--h2d", "1MiB", "--kernel", "20us", "--d2h", "1MiB"]
COMMANDS = [
    *((["predict", *SIZES, "--set", setting], said) for setting, said in SET),
    *((["sweep", *SIZES, "--set", values], said) for values, said in SWEPT),
    (["sweep", *SIZES, *(word for setting in TWICE[1][0] for word in ("--set", setting))], f"{TWICE[1][1]}\n"),
]
REFUSED: list[Case] = [
    *PROFILES,
    *NAMES,
    *FRONT_ENDS,
    *SETTINGS,
    *((lambda both=both: changed(H200, parse_settings(both)), said, "") for both, said in TWICE),
]


@pytest.mark.parametrize(("make", "begins", "shows"), REFUSED, ids=[f"{b}{s}"[:40] for _, b, s in REFUSED])
def test_bad_input_is_one_line_that_says_what_is_wrong(make: Callable[[], object], begins: str, shows: str) -> None:
    said = refusal(make)
    assert said.startswith(begins)
    assert shows in said
    assert len(said) <= 500


@pytest.mark.parametrize(("command", "begins"), COMMANDS, ids=[said[:40] for _, said in COMMANDS])
def test_a_command_says_in_one_line_what_is_wrong(
    command: list[str], begins: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refusal_of(command, capsys).startswith(begins)
