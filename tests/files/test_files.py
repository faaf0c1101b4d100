"""Schedules, workloads and devices on disk: what is read is what was written, and a fault has a name."""

import os
import threading
import time
from pathlib import Path

import msgspec
import pytest
from file_texts import WORKLOAD, document, edited, texts
from hypothesis import given
from hypothesis import strategies as st
from strategies import devices, make_device, schedules

from streamsim import program
from streamsim.device import KINDS, Device, device_names, load_device, parse_device, schema
from streamsim.files import dump_toml

fractions = st.floats(1e-6, 1.0)
times = st.floats(1e-9, 86_400.0)
workloads = st.builds(
    program.Workload,
    elements=st.integers(1, 1 << 30),
    inputs=st.lists(st.integers(1, 4096), max_size=3).map(tuple),
    outputs=st.lists(st.integers(1, 4096), max_size=3).map(tuple),
    kernels=st.lists(
        st.builds(program.WorkloadKernel, texts.filter(len), st.none() | times, st.integers(0, 9), fractions),
        min_size=1,
        max_size=3,
    ).map(tuple),
    name=texts,
)


@st.composite
def any_schedules(draw: st.DrawFn) -> program.Schedule:
    """Random schedules, with any name and with times and fills of any digits."""
    schedule = draw(schedules())
    ops = tuple(
        msgspec.structs.replace(op, duration_s=draw(times), fill=draw(fractions), name=draw(texts))
        if isinstance(op, program.Kernel) and op.duration_s is not None
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
def test_what_is_written_comes_back_exactly(
    schedule: program.Schedule, workload: program.Workload, device: Device
) -> None:
    assert program.parse_schedule(program.dump_schedule(schedule)) == schedule
    assert program.parse_workload(dump_toml(workload)) == workload
    assert parse_device(dump_toml(device)) == device


@pytest.mark.parametrize("name", device_names())
def test_every_shipped_device_comes_back_exactly(name: str) -> None:
    assert parse_device(dump_toml(load_device(name))) == load_device(name)


@pytest.mark.parametrize("kind", ["schedule", "workload", "device"])
def test_the_schema_names_every_field_and_where_text_may_stand_for_a_number(kind: str) -> None:
    definitions = schema(kind)["$defs"]
    parts: list[type[msgspec.Struct]] = (
        [program.Copy, program.Kernel, program.Region, program.Buffer] if kind == "schedule" else []
    )
    for struct in (KINDS[kind], *parts):
        assert set(struct.__struct_fields__) <= set(definitions[struct.__name__]["properties"])
    place, field, expected = {
        "schedule": ("Copy", "bytes", {"integer"}),
        "workload": ("WorkloadKernel", "duration_s", {"number", "string", "null"}),
        "device": ("Host", "copy_s", {"number", "string"}),
    }[kind]
    said = set(str(definitions[place]["properties"][field]).split("'"))  # {'type': ['number', 'string']}
    assert said & {"integer", "number", "string", "null"} == expected


def test_quantities_in_a_workload() -> None:
    assert program.parse_workload(WORKLOAD) == program.Workload(
        1 << 24, (4, 8), (), (program.WorkloadKernel(duration_s=0.57e-3),)
    )


@pytest.mark.parametrize(
    ("field", "text", "number"),
    [("bandwidth_bytes_per_s", '"55.3GB/s"', "55.3e9"), ("resident_threads", '"264Ki"', "270336")],
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


def test_a_profile_of_an_earlier_version_reads_as_the_same_without_what_was_retired(tmp_path: Path) -> None:
    path, device = tmp_path / "old.toml", load_device("h200")
    text = dump_toml(device)
    for table, lines in {
        "[h2d]": 'crowded_bytes = "100KiB"',
        "[host]": "graph_edge_s = 1.1e-6",
        "[sources]": '"h2d.crowded_bytes" = "measured: then"\n"host.graph_edge_s" = "measured: then"',
        "[spread]": '"host.graph_edge_s" = 0.2',
    }.items():
        assert text.count(f"{table}\n") == 1
        text = text.replace(f"{table}\n", f"{table}\n{lines}\n")
    path.write_text(text)
    assert load_device(path) == device


def test_a_pipe_with_a_name_is_read_however_slowly_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def write() -> None:
        with path.open("wb", buffering=0) as file:
            for piece in (document()[:1], document()[1:9], document()[9:]):
                time.sleep(0.03)
                file.write(piece)

    writer = threading.Thread(target=write)
    writer.start()
    assert program.read_schedule(path) == program.parse_schedule(document())
    writer.join()
