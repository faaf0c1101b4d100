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

from streamsim import sweep
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
from streamsim.program import Config, Workload, parse_workload
from streamsim.search import evaluate

DEVICE, H200 = make_device(), load_device("h200")
LIBRARY = FrontEnd(2e-9, 3e-9, 0.0, 0.0, 0.0, 5e-9, "measured: by hand")


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


def front_ends(third: Any) -> Device:
    """A profile in a file whose third front end of four is as given."""
    plain = to_builtins(LIBRARY)
    tables = {"first": plain, "second": plain, "third": plain | third, "fourth": plain}
    return parse_device(tomli_w.dumps(tomllib.loads(dump_device(load_device("ideal"))) | {"front_ends": tables}))


def sourced(**sources: str) -> Device:
    return change("sources", DEVICE.sources | {name.replace("__", "."): text for name, text in sources.items()})


def unsourced(name: str) -> Device:
    return change("sources", {k: v for k, v in DEVICE.sources.items() if k != name})


def settings(*texts: str) -> Device:
    return changed(H200, parse_settings(texts))


NEITHER = "neither a shipped profile (" + ", ".join(device_names())
FALL = (2e-6, 1e-6)  # a slope that would give kernels of negative time and share
UNKNOWN = "front end = 'jax': expected one of calls, cuda-c++, cupy, pytorch, pytorch_eager"
JAX = Workload(1 << 18, (4,), (4,), front_end="jax")
# What to make, and how the message begins; behind "...", what it must show.
REFUSED: list[tuple[Callable[[], object], str]] = [
    *(
        (partial(change, path, bad), f"{path.rpartition('.')[2]}...{bad!r}")
        for path, bad in (
            ("connections", 33),
            ("copy_engines.connections", 33),
            ("h2d.in_flight_bytes", 0),
            ("schema_version", 2),
            ("copy_engines.arbitration", "fair"),
            ("name", "a,b"),
        )
    ),
    (lambda: link(latency=2, duplex_latency=1), "duplex_latency_s...1e-09"),
    (lambda: change("h2d.duplex_bandwidth_bytes_per_s", 2e9), "duplex_bandwidth_bytes_per_s...2e+09"),
    (lambda: Fan(1.0, 0.5), "spin_s = 0.5: below delay_s = 1"),
    (lambda: sourced(host__coffee_s="assumed: hot"), "sources.host.coffee_s...'assumed: hot'"),
    (lambda: sourced(host="guessed: at night"), "sources.host...'guessed: at night'"),
    (lambda: sourced(d2h="measured:"), "sources.d2h...'measured:'"),
    (lambda: unsourced("connections"), "connections...source"),
    (lambda: unsourced("d2h"), "d2h...source"),
    (lambda: change("spread", {"host.coffee_s": 0.1}), "spread.host.coffee_s...0.1"),
    (lambda: change("spread", {"host.copy_s": -0.1}), "spread.host.copy_s...-0.1"),
    (lambda: KernelCost("k", 0, (10, 20), (1e-6,)), "elements...(10, 20)"),
    (lambda: KernelCost("k", 0, (10, 20), (1e-6, 0.0)), "duration_s...0.0"),
    (lambda: KernelCost("k", 0, (10, 20), FALL), "duration_s..."),
    (lambda: without(DEVICE, "wind"), "effect = 'wind': expected one of duplex, "),
    # Names of devices, and paths.
    (lambda: load_device("RTX309O"), f"device = 'RTX309O': {NEITHER}...; did you mean 'rtx3090'?"),
    *(
        (partial(load_device, name), f"device = ...{NEITHER}")
        for name in ("", "no/such/card", "h200\n", "\0", "1" * 5000)
    ),
    *((partial(load_device, name), f"device = ...{NEITHER}") for name in ("no/such/t4", "GTX 1060/card")),
    (lambda: load_device("nowhere/h200.toml"), "nowhere/h200.toml: cannot read it: no such file"),
    (lambda: load_device("x" * 5000 + ".toml"), "x"),
    # Front ends of profiles in files, of devices' names and of workloads.
    (lambda: front_ends({"enter_s": "7 parsecs"}), "device: front_ends.third.enter_s...'7 parsecs'"),
    (lambda: front_ends({"copy_s": -1.0}), "device: front_ends.third.copy_s = -1.0: expected a number from 0 to 86400"),
    (lambda: front_ends({"tea_s": 1}), "device: front_ends.third.tea_s = 1: unknown field"),
    (lambda: front_ends({"source": "a friend"}), "device: front_ends.third.source = 'a friend'...measured"),
    (lambda: load_device("h200:jax"), UNKNOWN),
    (lambda: evaluate(JAX, [Config()], "h200"), UNKNOWN),
    (lambda: sweep(JAX), UNKNOWN),
    (lambda: parse_workload("inputs = [64]\nfront_end = 3\n", "workload.toml"), "workload.toml: front_end...3"),
    # Settings. No field holds these values, so nothing follows them.
    *(
        (partial(changed, H200, {name: value}), f"{full} = ...number from")
        for name, full in (("h2d.latency", "h2d.latency_s"), ("link.bandwidth", "h2d.bandwidth_bytes_per_s"))
        for value in (16**5000, math.nan, True)
    ),
    (lambda: settings("host.copy=1us", "host.copy_s=2us"), "host.copy_s: set twice; keep one"),
    (lambda: settings("link.latency=1us", "h2d.latency=2us"), "h2d.latency_s: set twice; keep one"),
    *(
        (partial(settings, text), said)
        for text, said in (
            ("h2d.__doc__=x", "'h2d.__doc__': no number or rule of a device profile"),
            (
                "h2d.bandwith=1GB/s",
                "'h2d.bandwith': no number or rule of a device profile; did you mean h2d.bandwidth?",
            ),
            ("connections=4", "'connections': cannot be set here; use --connections"),
            ("host.copy", "set = 'host.copy': expected NAME=VALUE such as h2d.bandwidth=51GB/s"),
            ("host.copy=4GB/s", "host.copy_s = '4GB/s': expected a time"),
            ("host.copy=1us,2us", "host.copy = '1us,2us': expected one value; streamsim sweep takes several"),
            ("d2h.duplex_bandwidth=9TB/s", "d2h.duplex_bandwidth_bytes_per_s = 9e+12: above bandwidth_bytes_per_s"),
        )
    ),
]
SIZES = ["--h2d", "1MiB", "--kernel", "20us", "--d2h", "1MiB"]
COMMANDS = {
    "predict host.copy=4GB/s": "host.copy_s = '4GB/s': expected a time",
    "sweep h2d.latency_s=0..8us*2": "h2d.latency_s = '0..8us*2': expected a smaller and a larger number",
    "sweep copy_engines.arbitration=foo": "copy_engines.arbitration = 'foo': expected one of issue-order, ",
}


@pytest.mark.parametrize(("make", "shows"), REFUSED, ids=[said[:40] for _, said in REFUSED])
def test_bad_input_is_one_line_that_says_what_is_wrong(make: Callable[[], object], shows: str) -> None:
    said, (begins, _, more) = refusal(make), shows.partition("...")
    assert said.startswith(begins)
    assert more in said
    assert len(said) <= 500


@pytest.mark.parametrize("typed", COMMANDS)
def test_a_command_says_in_one_line_what_is_wrong(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, setting = typed.split()
    assert refusal_of([command, *SIZES, "--set", setting], capsys).startswith(COMMANDS[typed])
