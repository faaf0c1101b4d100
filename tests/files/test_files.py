"""Schedules, workloads and devices on disk: what is read is what was written, and a fault has a name."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from file_texts import WORKLOAD, edited, texts
from hypothesis import given
from hypothesis import strategies as st
from strategies import devices, make_device, schedules

from streamsim.cli import main
from streamsim.device import (
    KINDS,
    Device,
    device_names,
    dump_device,
    load_device,
    parse_device,
    read_device,
    schema,
    write_device,
)
from streamsim.errors import Notice
from streamsim.files import dump_toml
from streamsim.program import (
    Buffer,
    Copy,
    Kernel,
    Region,
    Schedule,
    Workload,
    WorkloadKernel,
    dump_schedule,
    parse_schedule,
    parse_workload,
    read_schedule,
    read_workload,
    ring,
    write_schedule,
    write_workload,
)

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


@st.composite
def any_devices(draw: st.DrawFn) -> Device:
    """Random devices, with any texts and a bandwidth and a spread of any digits."""
    device = draw(devices())
    fastest = device.h2d.bandwidth_bytes_per_s
    link = msgspec.structs.replace(device.h2d, duplex_bandwidth_bytes_per_s=draw(st.floats(1e6, fastest)))
    spread = {"h2d.duplex_bandwidth_bytes_per_s": draw(st.floats(0, 1e9))}
    sources = {**device.sources, "h2d": f"measured: x{draw(texts)}"}
    return msgspec.structs.replace(
        device,
        h2d=link,
        spread=spread,
        sources=sources,
        name=draw(texts.filter(lambda text: text.strip() and "," not in text)),
        description=draw(texts),
    )


# What is read is what was written


@given(any_schedules(), workloads, any_devices())
def test_what_is_written_comes_back_exactly(schedule: Schedule, workload: Workload, device: Device) -> None:
    assert parse_schedule(dump_schedule(schedule)) == schedule
    assert parse_workload(dump_toml(workload)) == workload
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
    device = schema("device")["$defs"]
    assert types(kernel["duration_s"]) == {"number", "string", "null"}
    assert types(device["Host"]["properties"]["copy_s"]) == {"number", "string"}
    assert types(device["Device"]["properties"]["spread"]["additionalProperties"]) == {"number"}
    assert types(schema("schedule")["$defs"]["Copy"]["properties"]["bytes"]) == {"integer"}


def test_quantities_in_a_workload() -> None:
    assert parse_workload(WORKLOAD) == Workload(1 << 24, (4, 8), (), (WorkloadKernel(duration_s=0.57e-3),))


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
def test_quantities_in_a_device_and_its_cost_table(field: str, text: str, number: str) -> None:
    costs = '\n[[compute.kernels]]\nname = "k"\nparameter = 1\nelements = ["1Ki", "1Mi"]\nduration_s = ["5us", "1ms"]\n'
    with_unit, bare = (
        parse_device(
            edited(make_device(), field, value).replace("[[compute", "[[x").replace("kernels = []", "") + costs
        )
        for value in (text, number)
    )
    assert with_unit == bare
    assert (bare.compute.kernels[0].elements, bare.compute.kernels[0].duration_s) == ((1024, 1 << 20), (5e-6, 1e-3))


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
