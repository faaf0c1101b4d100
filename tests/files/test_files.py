"""Schedules, workloads and devices on disk: what is read is what was written, and a fault has a name."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from file_texts import COPY, WORKLOAD, document, texts
from hypothesis import given
from hypothesis import strategies as st
from strategies import devices, make_device, pipeline_of, schedules

from streamsim.cli import main
from streamsim.device.files import dump_device, parse_device, read_device, write_device
from streamsim.device.library import device_names, load_device
from streamsim.device.profile import RETIRED, Device
from streamsim.device.schemas import KINDS, schema
from streamsim.errors import InputError, Notice
from streamsim.program.files import (
    dump_schedule,
    dump_workload,
    parse_schedule,
    parse_workload,
    read_schedule,
    read_workload,
    write_schedule,
    write_workload,
)
from streamsim.program.patterns import depth_first, ring
from streamsim.program.schedule import Buffer, Copy, Kernel, Region, Schedule
from streamsim.program.workload import Workload, WorkloadKernel
from streamsim.text.shown import LONGEST_LINE

fractions = st.floats(1e-6, 1.0)
times = st.floats(1e-9, 86_400.0)
workloads = st.builds(
    Workload,
    elements=st.integers(1, 1 << 30),
    inputs=st.lists(st.integers(1, 4096), max_size=3).map(tuple),
    outputs=st.lists(st.integers(1, 4096), max_size=3).map(tuple),
    kernels=st.lists(
        st.builds(WorkloadKernel, texts.filter(len), st.none() | times, st.integers(0, 9), fractions),
        min_size=1,
        max_size=3,
    ).map(tuple),
    name=texts,
)


@st.composite
def any_schedules(draw: st.DrawFn) -> Schedule:
    """Random schedules, with any name and with times and fills of any digits."""
    schedule = draw(schedules())
    ops = tuple(
        msgspec.structs.replace(op, duration_s=draw(times), fill=draw(fractions), name=draw(texts))
        if isinstance(op, Kernel) and op.duration_s is not None
        else op
        for op in schedule.ops
    )
    return msgspec.structs.replace(schedule, ops=ops, name=draw(texts))


def is_name(text: str) -> bool:
    """Whether a device may be called that."""
    return bool(text.strip()) and "," not in text


@st.composite
def any_devices(draw: st.DrawFn) -> Device:
    """Random devices, with any texts and a bandwidth and a spread of any digits."""
    device = draw(devices())
    fastest = device.h2d.bandwidth_bytes_per_s
    link = msgspec.structs.replace(device.h2d, duplex_bandwidth_bytes_per_s=draw(st.floats(1e6, fastest)))
    spread = {"h2d.duplex_bandwidth_bytes_per_s": draw(st.floats(0, 1e9))}
    sources = {**device.sources, "h2d": f"measured: x{draw(texts)}"}
    return msgspec.structs.replace(
        device, h2d=link, spread=spread, sources=sources, name=draw(texts.filter(is_name)), description=draw(texts)
    )


# What is read is what was written


@given(any_schedules())
def test_a_schedule_comes_back_exactly(schedule: Schedule) -> None:
    assert parse_schedule(dump_schedule(schedule)) == schedule


@given(workloads)
def test_a_workload_comes_back_exactly(workload: Workload) -> None:
    assert parse_workload(dump_workload(workload)) == workload


@given(any_devices())
def test_a_device_comes_back_exactly(device: Device) -> None:
    assert parse_device(dump_device(device)) == device


def test_through_files(tmp_path: Path) -> None:
    workload = Workload(1000, inputs=(4, 8), kernels=(WorkloadKernel("saxpy", 1e-4 / 3),), name="w")
    schedule = ring(workload, chunks=7, buffers=2, streams=3)
    device = make_device(copy=2)
    write_schedule(schedule, tmp_path / "s.json")
    write_workload(workload, tmp_path / "w.toml")
    write_device(device, tmp_path / "d.toml")
    assert read_schedule(tmp_path / "s.json") == schedule
    assert read_workload(str(tmp_path / "w.toml")) == workload
    assert read_device(tmp_path / "d.toml") == device


@pytest.mark.parametrize("name", device_names())
def test_every_shipped_device_comes_back_exactly(name: str) -> None:
    assert parse_device(dump_device(load_device(name))) == load_device(name)


def test_one_op_a_line() -> None:
    schedule = depth_first(pipeline_of(8), chunks=2, streams=2)
    lines = dump_schedule(schedule).decode().splitlines()
    assert len(lines) == len(schedule) + 2
    assert lines[1].startswith('{"op":"copy","direction":"h2d","bytes":16,"stream":1,')


def test_spaces_and_the_order_of_fields_do_not_matter() -> None:
    text = b' {"streams" : ["blocking"],\n "ops":[ {"stream":1,"bytes":4,"op":"copy","direction":"d2h"} ] }\r\n'
    assert parse_schedule(text) == Schedule((Copy("d2h", 4, 1),), ("blocking",))


@pytest.mark.parametrize("kind", ["schedule", "workload", "device"])
def test_the_schema_names_every_field(kind: str) -> None:
    definitions = schema(kind)["$defs"]
    parts: list[type[msgspec.Struct]] = [Copy, Kernel, Region, Buffer] if kind == "schedule" else []
    for struct in (KINDS[kind], *parts):
        assert set(struct.__struct_fields__) <= set(definitions[struct.__name__]["properties"])


def types(node: Any) -> set[str]:
    """What a schema lets stand there."""
    found = node.get("type", [])
    inner = [types(item) for item in node.get("anyOf", [])]
    return ({found} if isinstance(found, str) else set(found)).union(*inner)


def test_the_schema_says_where_text_may_stand_for_a_number() -> None:
    kernel = schema("workload")["$defs"]["WorkloadKernel"]["properties"]
    workload = schema("workload")["$defs"]["WorkloadFile"]["properties"]
    assert types(kernel["duration_s"]) == {"number", "string", "null"}
    assert types(kernel["points"]) == {"array"}
    assert types(workload["inputs"]["items"]) == types(workload["elements"]) - {"null"} == {"integer", "string"}
    assert "string" in types(workload["kernels"]["items"])  # what --kernel takes
    device = schema("device")["$defs"]
    assert types(device["Host"]["properties"]["copy_s"]) == {"number", "string"}
    assert types(device["Device"]["properties"]["spread"]["additionalProperties"]) == {"number"}
    assert types(schema("schedule")["$defs"]["Copy"]["properties"]["bytes"]) == {"integer"}


def test_quantities_in_a_workload() -> None:
    assert parse_workload(WORKLOAD) == Workload(1 << 24, (4, 8), (), (WorkloadKernel(duration_s=0.57e-3),))


def edited(device: Device, field: str, text: str) -> str:
    """The TOML of ``device`` with the first ``field`` set to ``text``."""
    lines = dump_device(device).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(f"{field} = "))
    return "\n".join([*lines[:at], f"{field} = {text}", *lines[at + 1 :]])


@pytest.mark.parametrize(
    ("field", "text", "number"),
    [
        ("crowded_duplex_latency_s", '"2.7us"', "2.7e-6"),
        ("bandwidth_bytes_per_s", '"55.3GB/s"', "55.3e9"),
        ("pageable_immediate_bytes", '"64KiB"', "65536"),
        ("resident_threads", '"264Ki"', "270336"),
        ("connections", '"8"', "8"),
    ],
)
def test_quantities_in_a_device(field: str, text: str, number: str) -> None:
    assert parse_device(edited(make_device(), field, text)) == parse_device(edited(make_device(), field, number))


def test_quantities_in_a_cost_table() -> None:
    text = dump_device(make_device()).replace("[[compute", "[[x").replace("kernels = []", "")
    costs = '\n[[compute.kernels]]\nname = "k"\nparameter = 1\nelements = ["1Ki", "1Mi"]\nduration_s = ["5us", "1ms"]\n'
    (cost,) = parse_device(text + costs).compute.kernels
    assert (cost.elements, cost.duration_s) == ((1024, 1 << 20), (5e-6, 1e-3))


@pytest.mark.parametrize(
    ("field", "text", "named"),
    [
        ("latency_s", '"2.7GB/s"', "h2d.latency_s = '2.7GB/s': expected a time"),
        ("latency_s", '"2.7m"', "h2d.latency_s = '2.7m': expected a time"),
        ("latency_s", '"-1us"', "h2d.latency_s = '-1us': expected a time"),
        ("latency_s", "-1e-6", "h2d.latency_s = -1e-06: expected a number from 0 to"),
        ("latency_s", "nan", "h2d.latency_s = nan: expected a number from 0 to"),
        ("latency_s", "[]", "h2d.latency_s = []: expected float, got array"),
        ("latency_s", "true", "h2d.latency_s = True: expected float, got bool"),
        ("latency_s", "2020-01-01", "h2d.latency_s = datetime.date(2020, 1, 1): expected float, got date"),
        ("bandwidth_bytes_per_s", '"55.3Gb/s"', "h2d.bandwidth_bytes_per_s = '55.3Gb/s': expected a bandwidth"),
        ("bandwidth_bytes_per_s", '"5us"', "h2d.bandwidth_bytes_per_s = '5us': expected a bandwidth"),
        ("bandwidth_bytes_per_s", "0", "h2d.bandwidth_bytes_per_s = 0"),
        ("duplex_bandwidth_bytes_per_s", "1e12", "h2d.duplex_bandwidth_bytes_per_s = 1e+12: above"),
        ("pageable_immediate_bytes", '"64us"', "host.pageable_immediate_bytes = '64us': expected a size"),
        ("connections", "33", "connections = 33: expected a whole number from 1 to 32"),
        ("connections", "8.5", "connections = 8.5: expected int"),
        ("count", "3", "copy_engines.count = 3: expected a whole number from 0 to 2"),
        ("kernel_signal", '"never"', "compute.kernel_signal = 'never': invalid"),
        ("h2d", "1", "sources.h2d = 1: expected str, got int"),
        ("h2d", '"guessed"', "sources.h2d = 'guessed': expected 'measured: ...'"),
    ],
)
def test_a_fault_in_a_device_names_field_and_value(field: str, text: str, named: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_device(edited(make_device(), field, text), "my.toml")
    assert str(caught.value).startswith(f"my.toml: {named}")


OF_AN_EARLIER_VERSION = {
    "[h2d]": 'crowded_bytes = "100KiB"',
    "[host]": "graph_edge_s = 1.1e-6",
    "[sources]": '"h2d.crowded_bytes" = "measured: then"\n"host.graph_edge_s" = "measured: then"',
    "[spread]": '"host.graph_edge_s" = 0.2',
}


def with_retired(text: str) -> str:
    """The profile as an earlier version might have written it."""
    for table, lines in OF_AN_EARLIER_VERSION.items():
        assert text.count(f"{table}\n") == 1
        text = text.replace(f"{table}\n", f"{table}\n{lines}\n")
    return text


def test_a_profile_of_an_earlier_version_reads_as_the_same_without_what_was_retired(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, device = tmp_path / "old.toml", load_device("h200")
    path.write_text(with_retired(dump_device(device)))
    with pytest.warns(Notice, match=r"old\.toml: h2d\.crowded_bytes, host\.graph_edge_s: ") as told:
        assert load_device(path) == device
    assert len(told) == 1
    outputs = []
    for name in ("h200", str(path)):
        assert main(["predict", "--device", name, "--h2d", "1MiB", "--kernel", "20us", "--d2h", "1MiB", "--json"]) == 0
        outputs.append(capsys.readouterr())
    assert outputs[0].out == outputs[1].out.replace(str(path), "h200")
    assert outputs[0].err == ""
    assert outputs[1].err.count("\n") == 1
    assert outputs[1].err.startswith(f"streamsim: {path}: h2d.crowded_bytes, ")


@pytest.mark.parametrize("name", RETIRED)
def test_a_retired_name_elsewhere_is_unknown(name: str) -> None:
    text, (part, _, field) = dump_device(load_device("h200")), name.partition(".")
    other = "host" if part != "host" else "compute"
    with pytest.raises(InputError, match=rf"{other}\.{field} = 0\.0: unknown field"):
        parse_device(text.replace(f"[{other}]\n", f"[{other}]\n{field} = 0.0\n"))
    with pytest.raises(InputError, match=rf"sources\.{other}\.{field} "):
        parse_device(text.replace("[sources]\n", f'[sources]\n"{other}.{field}" = "measured: then"\n'))


def test_missing_and_unknown_fields_of_a_device() -> None:
    text = dump_device(make_device())
    with pytest.raises(InputError, match=r"^d: h2d\.latency_s: is missing$"):
        parse_device(text.replace("latency_s", "latency", 1).replace("latency = 0.0\n", "", 1), "d")
    with pytest.raises(
        InputError, match=r"^d: host\.colour = 'red': unknown field; streamsim schema says what is known$"
    ):
        parse_device(text.replace("[host]", '[host]\ncolour = "red"'), "d")
    with pytest.raises(InputError, match=r"^d: spread\.connections = 'x': expected float, got str$"):
        parse_device(text.replace("[spread]", "") + '\n[spread]\nconnections = "x"\n', "d")
    with pytest.raises(InputError, match=r"^d: compute\.concurrent_kernels: has no source"):
        parse_device(text.replace('compute = "assumed: a device for tests"\n', ""), "d")


BUFFERS = '"buffers":[{"name":"h","bytes":16,"memory":"pinned"}]'


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (document(COPY.replace("8", '"abc"')), "ops[1].bytes = 'abc': expected int, got str"),
        (document(COPY.replace("8", "0")), "ops[1].bytes = 0: expected a whole number from 1 to"),
        (document(COPY.replace("8", "-8")), "ops[1].bytes = -8: expected a whole number from 1 to"),
        (document(COPY.replace("8", "8.5")), "ops[1].bytes = 8.5: expected int, got float"),
        (document(COPY.replace("8", "1e999")), "ops[1].bytes = inf: number out of range"),
        (document(COPY.replace("8", "9" * 40)), "ops[1].bytes = 999"),
        (document(COPY.replace("8", "null")), "ops[1].bytes = None: expected int, got null"),
        (document(COPY.replace("h2d", "up")), "ops[1].direction = 'up': invalid enum value"),
        (document(COPY.replace("copy", "move")), "ops[1].op = 'move': invalid value"),
        (document('{"stream":1}'), "ops[1].op: is missing"),
        (document('{"op":"copy","direction":"h2d","stream":1}'), "ops[1].bytes: is missing"),
        (document(COPY.replace("8", '8,"colour":"red"')), "ops[1].colour = 'red': unknown field"),
        (document("7"), "ops[1] = 7: expected object, got int"),
        (document(COPY.replace('"stream":1', '"stream":2')), "ops[1].stream = 2: unknown stream"),
        (document(COPY.replace('"stream":1', '"stream":2147483647')), "ops[1].stream = 2147483647: unknown stream"),
        (document('{"op":"record","event":0,"stream":1}'), "ops[1].event = 0: unknown event"),
        (document('{"op":"kernel","stream":1,"duration_s":-1}'), "ops[1].duration_s = -1"),
        (document('{"op":"kernel","stream":1,"duration_s":NaN}'), "cannot be read: JSON is malformed"),
        (document('{"op":"kernel","stream":1}'), "ops[1].duration_s = None: a kernel needs"),
        (
            document(COPY.replace("8", '8,"host":{"buffer":"x","offset":0,"bytes":8}'), BUFFERS),
            "ops[1].host.buffer = 'x': unknown buffer",
        ),
        (document(COPY.replace("8", '8,"host":{"buffer":"h","offset":12,"bytes":8}'), BUFFERS), "ops[1].host"),
        (
            document(more=f'{BUFFERS[:-1]},{{"name":"h","bytes":1,"memory":"device"}}]'),
            "buffers[1].name = 'h': another buffer",
        ),
        (document(more='"schema_version":2'), "schema_version = 2: this streamsim reads 1"),
        (document(COPY.replace("8", '8,"bytes":9')), "'bytes' stands twice in one object"),
        (document(more='"streams":["blocking"]'), "'streams' stands twice in one object"),
        (b'{"ops":[]}', "ops = []: an empty schedule"),
        (b"[]", "the file = []: expected object, got array"),
        (b"", "is empty; expected a schedule"),
        (document()[:-3], "is cut short (cannot be read: expecting ',' delimiter: line 1 column"),
        (document() + b"x", "cannot be read: extra data"),
        (b'{"ops":"\xff"}', "is not UTF-8 text (byte 8)"),
        (b'{"ops":' + b"[" * 100_000, "is nested too deeply"),
        (document(COPY.replace("8", "9" * 5000)), "cannot be read: exceeds the limit (4300 digits)"),
    ],
)
def test_a_fault_in_a_schedule_names_field_and_value(data: bytes, named: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_schedule(data, "plan.json")
    assert str(caught.value).startswith(f"plan.json: {named}")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) <= LONGEST_LINE + 20


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("elements = 0", "elements = 0: expected a whole number from 1"),
        ('elements = "64MiB"', "elements = '64MiB': expected a count"),
        ("elements = 5\nelements = 6", "cannot be read: cannot overwrite a value"),
        ("elements = ", "cannot be read: invalid value"),
        ("elements = 5\nchunk = 3", "chunk = 3: unknown field"),
        ("elements = 5\ninputs = [4, -1]", "inputs[1] = -1: expected a whole number"),
        ('elements = 5\ninputs = ["4us"]', "inputs[0] = '4us': expected a size"),
        ("elements = 5\n[[kernels]]\nduration_s = 0", "kernels[0].duration_s = 0.0: expected a number from 1e-09"),
        ("elements = 5\n[[kernels]]\nduration_s = inf", "kernels[0].duration_s = inf: expected a number"),
        ("elements = 5\n[[kernels]]\nfill = 2.0", "kernels[0].fill = 2.0: expected a number from 1e-06 to 1"),
        ("x = " + "[" * 100_000, "is nested too deeply"),
        (".".join("a" * 3_000) + " = 1", "a = {"),
        ("elements = " + "9" * 5000, "cannot be read: exceeds the limit"),
    ],
)
def test_a_fault_in_a_workload_names_field_and_value(text: str, named: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_workload(text, "w.toml")
    assert str(caught.value).startswith(f"w.toml: {named}")


TOO_LONG = "0x" + "1" * 5000  # of more digits than Python is willing to write, and TOML holds it
BEYOND = "1" + "0" * 400  # more than any float


@pytest.mark.parametrize("number", [TOO_LONG, BEYOND, f"-{BEYOND}"])
def test_a_number_of_any_length_in_a_file_is_named(number: str) -> None:
    device = dump_device(load_device("h200"))
    for edited, named in (
        (device.replace("connections = 8", f"connections = {number}"), "connections = "),
        (device.replace("[spread]\n", f'[spread]\n"host.copy_engine" = {number}\n'), "spread.host.copy_engine = "),
        (device.replace("[host]\n", f"[host]\nwidth = {number}\n"), "host.width = "),
    ):
        assert edited != device
        with pytest.raises(InputError) as caught:
            parse_device(edited, "d")
        assert str(caught.value).startswith(f"d: {named}")
    with pytest.raises(InputError, match=r"^w: inputs\[0\] = "):
        parse_workload(f"elements = 4\ninputs = [{number}]\n", "w")
