"""Bad input through the command: one clear line on stderr, exit code 2, and no file left or changed."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from layered import layers_of
from strategies import d2h, h2d, kernel, pipeline_of, program

from streamsim.cli import main
from streamsim.device import dump_device, load_device, read_device, write_device
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.program import (
    HostWork,
    Synchronize,
    depth_first,
    dump_schedule,
    read_layers,
    read_schedule,
    read_workload,
    write_layers,
    write_schedule,
    write_workload,
)
from streamsim.report import write_trace
from streamsim.search import read_asked, sweep_of
from streamsim.text import recognise as kinds
from streamsim_validate.calibrate import read_samples
from streamsim_validate.records import Header, read_record

SCHEDULE = dump_schedule(depth_first(pipeline_of(64), 2, 2)).decode()
DEVICE = dump_device(load_device("h200"))
COPY = '{"op":"copy","direction":"h2d","bytes":8,"stream":1}'


def refused(capsys: pytest.CaptureFixture[str], directory: Path, *arguments: str) -> str:
    """The one line that the command says, after it has left everything as it was."""
    before = {path: path.read_bytes() if path.is_file() else b"" for path in directory.rglob("*")}
    code = main(list(arguments))
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.startswith("streamsim: error: ")
    assert err.endswith("\n")
    assert err[:-1].isprintable()  # so it is one line
    assert "Traceback" not in err
    assert {path: path.read_bytes() if path.is_file() else b"" for path in directory.rglob("*")} == before
    return err.removeprefix("streamsim: error: ").strip()


SIMULATE, SCHEDULED = "simulate given.json --trace t.json", "schedule given.toml -o s.json"
WORK = 'inputs = ["4MiB"]\noutputs = ["4MiB"]\nkernels = ["80us"]\n'

# Commands in a folder with the files of ``folder``, and how what they say begins.
LINES = {
    "predict --h2d -64MiB": "--h2d = '-64MiB': ",
    "predict --h2d 0": "--h2d = '0': ",
    "predict --h2d nan": "--h2d = 'nan': ",
    "predict --h2d inf": "--h2d = 'inf': ",
    "predict --h2d 1e30": "--h2d = '1e30': ",
    "predict --h2d 64m": "--h2d = '64m': ",
    "predict --h2d 64M": "--h2d = '64M': ",
    "predict --h2d 1.5": "--h2d = '1.5': ",
    "predict --h2d 3ms": "--h2d = '3ms': ",
    "predict --h2d abc": "--h2d = 'abc': ",
    "predict --h2d 4KiB --d2h 12Kb": "--d2h = '12Kb': ",
    "predict --kernel -1ms": "--kernel = '-1ms': ",
    "predict --kernel 0": "--kernel = '0': ",
    "predict --kernel nan": "--kernel = 'nan': ",
    "predict --kernel 1e-30": "--kernel = '1e-30': ",
    "predict --kernel 2days": "--kernel = '2days': ",
    "predict --kernel 1e9": "--kernel = '1e9': ",
    "predict --kernel 64MiB": "--kernel = '64MiB': ",
    "predict --h2d 4KiB --chunks 0": "--chunks = '0': ",
    "predict --h2d 4KiB --chunks -1": "--chunks = '-1': ",
    "predict --h2d 4KiB --chunks 1.5": "--chunks = '1.5': ",
    "predict --h2d 4KiB --chunks x": "--chunks = 'x': ",
    "predict --h2d 4KiB --chunks 2000": "chunks = 2000: more chunks than pieces of 16 bytes (256)",
    "predict --h2d 1GiB --chunks 1e9": "--chunks = '1e9': ",
    "predict --h2d 4KiB --streams 0": "--streams = '0': ",
    "predict --h2d 4KiB --streams 2147483647": "--streams = '2147483647': ",
    "predict --h2d 4KiB --buffers 0": "--buffers = '0': ",
    "predict --h2d 4KiB --buffers 2 --order breadth-first": "buffers = 2: ",
    "predict --h2d 4KiB --connections 0": "connections = 0: expected a whole number from 1 to 32",
    "predict --h2d 4KiB --connections 33": "connections = 33: expected a whole number from 1 to 32",
    "predict --h2d 4KiB --connections many": "Invalid value for '--connections': 'many'",
    "predict --h2d 4KiB --elements 0": "--elements = '0': ",
    "predict --h2d 4KiB --elements 1000": "elements = 1000: does not divide h2d = 4096 bytes",
    "predict --h2d 4KiB --d2h 1000 --elements 1024": "elements = 1024: does not divide d2h = 1000 bytes",
    "predict --h2d 8TB --d2h 1": "device buffers of 8000000000001 bytes",
    "predict --h2d 4KiB --order random": "Invalid value for '--order': 'random'",
    "predict --h2d 4KiB --memory managed": "Invalid value for '--memory': 'managed'",
    "predict --h2d 4KiB --launch later": "Invalid value for '--launch': 'later'",
    "predict --h2d 4KiB --launch graph --order serial": "launch = 'graph': ",
    "predict --h2d 4KiB --launch graph --memory pageable": (
        "launch = 'graph': pageable copies cannot be captured; use pinned memory"
    ),
    "predict --h2d 4KiB --chunks 4 --streams 4 --order serial": "streams = 4: a serial program has one stream",
    "predict --h2d 4KiB --chunks 4 --buffers 2 --order serial": "buffers = 2: a ring of buffers is issued depth-first",
    "predict --h2d 4KiB --format xml": "Invalid value for '--format': 'xml'",
    "predict --h2d 4KiB --device b201": "device = 'b201': ",
    "predict --h2d 4KiB --device none.toml": "none.toml: cannot read it: no such file",
    "predict --h2d 4KiB --device .": "device = '.': ",
    "predict --h2d": "Option '--h2d' requires an argument",
    "predict --h2d 4KiB --colour red": "No such option '--colour'. Try",
    "import t.json --csv": "No such option '--csv'. Did you mean '--format'? Try",
    "loop --num-workers 2": "No such option '--num-workers'. Did you mean '--workers'? Try",
    "explain none.json w.toml": "w.toml: one of several files is a schedule or a recording; explain it alone",
    "predict --h2d 4KiB --plot none/x.png": "none/x.png: there is no folder",
    "predict --h2d 4KiB --plot x.gif": "x.gif: expected a file name that ends in",
    "predict --h2d 4KiB --trace none/x.json": "none/x.json: there is no folder",
    "predict --h2d 4KiB --trace .": ".: is a folder; name a file in it",
    "predict none.toml": "none.toml: cannot read it: no such file",
    "predict none.toml --h2d 4KiB": "none.toml: give a workload file or --h2d",
    "predict a\u0000b": "a\\x00b: cannot read it: embedded null byte",
    "predict --h2d 4KiB --trace a\u0000b": "a\\x00b: cannot write it: embedded null byte",
    "predict a.toml b.toml": "Got unexpected extra argument",
    "predict": "no workload: give --h2d SIZE",
    "predikt": "No such command 'predikt'",
    "simulate": "Missing argument 'SCHEDULE.json...'",
    "devices show": "Missing argument 'NAME'",
    "devices show b201": "device = 'b201': ",
    "devices check none.toml": "none.toml: cannot read it: no such file",
    "devices check .": ".: cannot read it: is a directory",
    "schema poem": "Invalid value for '{schedule|workload|layers|device}': 'poem'",
    "schedule --h2d 4KiB -o none/s.json": "none/s.json: there is no folder",
    "schedule --h2d 4KiB -o .": ".: is a folder; name a file in it",
    "schedule --h2d 4KiB --chunks 0 -o s.json": "--chunks = '0': ",
    "predict --h2d 4KiB --chunks 4 --chunks=8": "--chunks: given twice",
    "sweep --h2d 4KiB --device a100 --device h200": "--device: given twice",
    "predict --h2d 4KiB --order serial --order prefetch": "--order: given twice",
    "predict --h2d 4KiB --device h200:cupy --front-end pytorch": "front end = 'pytorch': h200:cupy has the calls of",
    "predict --h2d 4KiB --device h200:cupy --front-end calls": "front end = 'calls': h200:cupy has the calls of",
    "sweep --h2d 4KiB --device a100,h200:cupy --front-end cupy,pytorch": "front end = 'pytorch': h200:cupy has",
    "sweep --h2d-once 4KiB": "no workload: give --h2d SIZE, --kernel TIME or --d2h SIZE, as nothing is cut",
    "predict --h2d-once 4KiB --chunks 4": "chunks = 4: there is nothing to cut",
    "predict --h2d 4KiB --kernel 1ms/0": "--kernel launches = '0': expected a count such as 16Mi, 4M or 4096, from 1",
    "code --layers model.toml --as cupy": "language = 'cupy': layers are modules of PyTorch; write them --as pyt",
    "code --layers odd.csv --as pytorch": "layer0: weight_bytes = 6: the layers of a program hold floats",
    "best --layers odd.csv --as pytorch -o x.py": "layer0: weight_bytes = 6: the layers of a program hold floats",
    "best --layers model.toml --as cuda-c++ -o x.py": "language = 'cuda-c++': layers are modules of PyTorch",
    "code --layers model.toml --as pytorch --chunks 3": "--chunks: does not go with --layers",
    "code --layers model.toml": "--as: no language",
    "predict --layers none.toml": "none.toml: cannot read it: no such file",
    "predict --layers model.toml --chunks 4": "--chunks: does not go with --layers, which are streamed, not cut",
    "predict w.toml --layers model.toml": "a workload: does not go with --layers",
    "predict --layers model.toml --launch graph": "--launch: does not go with --layers",
    "explain --h2d 4MiB --depth 2": "--depth: needs layers; add --layers FILE",
    "schedule --h2d 4MiB --resident a": "--resident: needs layers",
    "predict --layers model.toml --resident layer9": "resident = 'layer9': no layer has this name; did you mean",
    "predict --layers model.toml --depth 0": "--depth = '0': expected a count",
    "predict --layers model.toml --reserve 1m": "--reserve = '1m': expected a size",
    "predict --layers model.toml --memory-limit 100MB": "device buffers of 180000000 bytes",
    "predict --layers model.toml --passes 400000": "layers, passes: 3 layers and 400000 passes are more than",
    "best --layers model.toml --memory-limit 80MB": "memory limit = 80000000 bytes (76.29 MiB): the largest lay",
    "best --layers model.toml --memory-limit 100MB --reserve 20MB": (
        "memory limit = 100000000 bytes (95.37 MiB): the largest layer, layer1, has 85.83 MiB of weights"
        " and 19.07 MiB are"
    ),
    "best --layers model.toml --memory-limit 100MB --host-memory-limit 1MB": "no way to place 133.5 MiB of weigh",
    "best --layers model.toml --max-chunks 4": "--max-chunks: does not go with --layers",
    "best --layers model.toml --memory pageable": "--memory: does not go with --layers",
    "best --h2d 4MiB --max-depth 2": "--max-depth: needs layers",
    "best --layers bad.toml": "bad.toml: layers[0].weight_bytes: is missing",
    "best --layers bad.csv": "bad.csv: line 3: kernels = []: a layer needs a kernel",
    "best --layers device.toml": "device.toml: is a device profile, for --device; expected the layers of a model",
    "best none.json": "ops: there is no copy and no kernel to cut",
    "best odd.json --as cupy -o x.py": "no pipeline can be written: step 8 has 4 copies and",
    "best p.json --order serial": "--order: p.json is a schedule, cut and issued already",
    "best p.json --memory pageable": "--memory: p.json is a schedule, cut and issued already",
    "best p.json --as cupy": "--as, --output: the program needs a language and a file",
    "best --h2d 1MiB --independent": "--independent: needs a program with steps",
    "whatif p.json --graph --as cupy": "--as cupy: the program needs its file; give --output too",
    "code odd.json --as cupy": "no pipeline can be written: step 8 has 4 copies",
    "whatif p.json --streams 2 --prefetch 1 --independent --as cupy -o x.py": (
        "--prefetch 1: a pipeline prefetches, or has its steps in 2 streams; leave one out"
    ),
    "whatif p.json --graph --plot x.bmp -o x.json": "x.bmp: expected a file name",
    "predict --h2d 1MiB --kernel 20us --chunks 1,4 --explain": "--explain: needs a single program",
    "predict --h2d 1MiB --kernel 20us --chunks 1,x": "chunks = 'x': expected a whole number",
    "predict --h2d 1MiB --kernel 20us --order depth-first,best": "order = 'best': expected one of",
    "predict --h2d 1MiB --kernel 20us --device h200,nowhere": "device = 'nowhere': neither a shipped profile",
    "predict --h2d 1MiB --kernel 20us --chunks 1..64 --plot many.png": "--plot many.png: shows 12 time lines at most",
    "sweep --h2d 4KiB --call-cost dear": "call_cost",
    "predict --h2d 4KiB --json --format csv": "--json, --format csv: they say different things",
    "sweep --h2d 4KiB --json --format csv": "--json, --format csv: they say different things",
    "predict --h2d 4KiB --format csv --json": "--json, --format csv: they say different things",
    "sweep --h2d 4KiB --format csv --json": "--json, --format csv: they say different things",
    "predict --h2d 4KiB --format markdown --json": "--json, --format markdown: they say different things",
    "sweep --h2d 4KiB --format markdown --json": "--json, --format markdown: they say different things",
}
TEXTS = [  # of a file called given
    ("predict given.json", "", "is empty; expected a workload\n"),
    ("predict given.json", '{"a": [1]}', "is JSON; expected a workload, in TOML\n"),
    ("predict given.json", '{"inputs": {"streams": 4}, "makespan_s": 1', "is JSON; expected a workload, in TOML\n"),
    ("predict given.json", '{"ops": []}', "ops = []: an empty schedule"),
    ("simulate given.toml", "elements = 5", "is a workload, for `streamsim predict`; expected a schedule\n"),
    (SIMULATE, SCHEDULE.replace('"stream":2', '"stream":3', 1), "ops[3].stream = 3: unknown stream"),
    (SIMULATE, SCHEDULE.replace('"buffer":"d_in0"', '"buffer":"x"', 1), "ops[0].device.buffer = 'x': unknown buffer"),
    (
        SIMULATE,
        SCHEDULE.replace('{"op":"synchronize"}', '{"op":"wait","event":7,"stream":1}', 1),
        "ops[6].event = 7: unknown event",
    ),
    (SIMULATE, SCHEDULE.replace('"offset":128,', '"offset":129,', 1), "ops[3].host"),
    (SIMULATE, f'{{"ops":[{COPY}]}}', "ops[0].stream = 1: unknown stream"),
    (SIMULATE, '{"ops":[]}', "ops = []: an empty schedule"),
    (SIMULATE, "{}", "ops: is missing"),
    (SIMULATE, SCHEDULE[:200], "is cut short (cannot be read: "),
    (SIMULATE, SCHEDULE[:-3], "is cut short (cannot be read: "),
    (SIMULATE, "not json", "cannot be read: "),
    (SIMULATE, "", "is empty; expected a schedule"),
    (SIMULATE, '{"ops":[' + COPY.replace("8", "0") + "]}", "ops[0].bytes = 0: "),
    (SIMULATE, '{"ops":[' + COPY.replace("8", "1" + "0" * 30) + "]}", "ops[0].bytes = 1000"),
    (SIMULATE, '{"ops":[{"op":"kernel","stream":0,"name":"saxpy","elements":9}]}', "kernel 'saxpy' with parameter 0: "),
    (SCHEDULED, "elements = 0\n", "elements = 0: "),
    (SCHEDULED, "elements = 4\nsize = 3\n", "size = 3: unknown field"),
    (SCHEDULED, "elements = 4\n[[kernels]]\nduration_s = '4MiB'\n", "kernels[0].duration_s = '4MiB': expected a time"),
    (SCHEDULED, "elements = 4\n[[kernels", "cannot be read: "),
    (SCHEDULED, "elements = 4\ninputs = [0]\n", "inputs[0] = 0: expected a whole number"),
    (SCHEDULED, "elements = 4\ninputs = []\noutputs = []\nkernels = []\n", "inputs, outputs, kernels: "),
    (
        "predict given.toml",
        WORK + "chunks = [1, 2]",
        "chunks = [1, 2]: expected one value; several are for streamsim sweep",
    ),
    ("predict given.toml", WORK + "chunks = 0", "chunks = '0': expected a whole number"),
    ("predict given.toml", WORK + 'order = "deep"', "order = 'deep': 'deep' is not one of"),
    ("predict given.toml", WORK + "chunk = 4", "chunk"),
    *(
        (line, DEVICE.replace(old, new, 1), said)
        for line in ("devices check given.toml", "predict --h2d 4KiB --device given.toml")
        for old, new, said in (
            ("connections = 8\n", "", "connections: is missing"),
            ("connections = 8\n", "connections = 8\ncolour = 1\n", "colour = 1: unknown field"),
            ("connections = 8\n", "connections = -8\n", "connections = -8: "),
            ("latency_s = ", "latency_s = -", "h2d.latency_s = -"),
            ("latency_s = ", 'latency_s = "5GB/s" #', "h2d.latency_s = '5GB/s': expected a time"),
            (
                "bandwidth_bytes_per_s = ",
                'bandwidth_bytes_per_s = "5ms" #',
                "h2d.bandwidth_bytes_per_s = '5ms': expected a",
            ),
            ("bandwidth_bytes_per_s = ", "bandwidth_bytes_per_s = nan #", "h2d.bandwidth_bytes_per_s = nan: "),
            ("[d2h]", "[d2h", "cannot be read: "),
            ("[d2h]", "[h2d]", "cannot be read: "),
            ("h2d.latency_s", "h2d.latenzy_s", "sources.h2d.latenzy_s = "),
        )
    ),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the process, with programs and layers, good and bad ones."""
    monkeypatch.chdir(tmp_path)
    step = h2d(1, 4 << 20), HostWork(2e-6), kernel(1, 50_000, name="gemm"), d2h(1, 4 << 20)
    write_schedule(program(*step * 8, Synchronize(), streams=1), "p.json")
    write_schedule(program(*step * 8, kernel(1, 5), Synchronize(), streams=1), "odd.json")
    write_schedule(program(HostWork(1.0)), "none.json")
    write_layers(layers_of((40_000_000, 900_000), (90_000_000, 500_000), (10_000_000, 3_000_000)), "model.toml")
    Path("odd.csv").write_text("weight_bytes,kernels\n6,1ms\n")
    Path("bad.toml").write_text("[[layers]]\nkernels = ['1ms']\n")
    Path("bad.csv").write_text("weight_bytes,kernels\n4,1ms\n4,;\n")
    Path("device.toml").write_text("connections = 8\n[host]\n")
    return tmp_path


@pytest.mark.parametrize(("line", "said"), LINES.items())
def test_a_command_says_in_one_line_what_is_wrong(
    capsys: pytest.CaptureFixture[str], folder: Path, line: str, said: str
) -> None:
    assert refused(capsys, folder, *line.split()).startswith(said)


@pytest.mark.parametrize(("line", "text", "said"), TEXTS)
def test_a_file_is_named_with_what_is_wrong_in_it(
    capsys: pytest.CaptureFixture[str], folder: Path, line: str, text: str, said: str
) -> None:
    name = next(word for word in line.split() if word.startswith("given."))
    (folder / name).write_text(text)
    assert text != DEVICE
    assert f"{refused(capsys, folder, *line.split())}\n".removeprefix(f"{name}: ").startswith(said)


def test_a_stray_argument_cannot_colour_the_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert refused(capsys, tmp_path, "predict", "a.toml", "\x1b[31m").startswith(
        "Got unexpected extra argument (\\x1b[31m)"
    )


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "a\nb", "\x1b[31mred", "h200 ", ""])
def test_strange_device_names(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    refused(capsys, tmp_path, "predict", "--h2d", "4KiB", "--device", name)
    refused(capsys, tmp_path, "devices", "show", name)


def test_a_schedule_may_not_make_the_program_allocate_what_it_names(tmp_path: Path) -> None:
    """The most events that a schedule can declare, each of the largest buffers, and none of them used."""
    path = tmp_path / "plan.json"
    buffers = ",".join(f'{{"name":"{i}","bytes":8796093022207,"memory":"device"}}' for i in range(100))
    path.write_text(f'{{"streams":["blocking"],"events":2147483647,"buffers":[{buffers}],"ops":[{COPY}]}}')
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30));"
        "from streamsim.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    result = subprocess.run(
        [sys.executable, "-c", limited, "simulate", str(path), "--device", "ideal", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_too_little_memory_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("streamsim.program.config.loop_of", no_room)
    line = refused(capsys, tmp_path, "schedule", "--h2d", "1GiB", "-o", str(tmp_path / "s.json"))
    assert line == "not enough memory for a schedule of this size; use fewer chunks"


def test_a_path_with_a_line_break_is_shown_on_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "a\\nb.json: cannot read it" in refused(capsys, tmp_path, "simulate", str(tmp_path / "a\nb.json"))


def test_an_output_that_fails_leaves_the_old_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text("before")
    refused(capsys, tmp_path, "predict", "--h2d", "4KiB", "--chunks", "0", "--trace", str(trace))
    assert trace.read_text() == "before"


@pytest.mark.parametrize(
    "arguments",
    [
        ("predict", "--h2d", "64m"),
        ("predict", "--h2d", "4KiB", "--plot", "/proc/x.png"),
        ("simulate", "/dev/null"),
        ("devices", "check", "/"),
        ("frobnicate",),
    ],
)
def test_as_a_process(arguments: tuple[str, ...]) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "streamsim", *arguments], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("streamsim: error: ")


OPTIONS = "--h2d --kernel --d2h --chunks --streams --buffers --elements --connections --order --memory --launch --json"
VALUES = "serial breadth-first pageable graph 4KiB 1ms 3 0 -1 64m nan"
WORDS = st.sampled_from([*OPTIONS.split(), *VALUES.split()])


@settings(examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(WORDS | st.text(max_size=4), max_size=8))
def test_any_options_give_a_prediction_or_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # a stray word may be taken for a file
    code = main(["predict", *words])
    out, err = capsys.readouterr()
    assert (code, bool(out), err.count("\n")) in ((0, True, 0), (2, False, 1))
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def one_of_each(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A file of every kind."""
    folder = tmp_path_factory.mktemp("kinds")
    names = ("schedule", "workload", "layers", "device", "sweep", "journal", "trace", "loop")
    found = {name: folder / name for name in names}
    write_schedule(depth_first(pipeline_of(64), 2, 2), found["schedule"])
    write_workload(pipeline_of(64), found["workload"])
    write_layers(layers_of((4, 5), (6, 3)), found["layers"])
    write_device(load_device("ideal"), found["device"])
    found["loop"].write_text('batch = 2\nbatch_bytes = "1MiB"\nstep = "1ms"\n')
    found["sweep"].write_text('h2d = ["1MiB"]\nchunks = "1..4"\n')
    write_trace(simulate(depth_first(pipeline_of(64), 2, 2), load_device("ideal")), found["trace"])
    record = read_record("validate/campaigns/records/races-h200.json.gz")
    head = Header(record.card, record.machine, "quick", "1")
    found["journal"].write_bytes(msgspec.json.encode(head) + b"\n")
    shipped = {"record": "races-h200.json.gz", "samples": "calibration-h200.samples.gz"}
    return found | {kind: Path("validate/campaigns/records") / name for kind, name in shipped.items()}


READERS = {
    "schedule": (read_schedule, ()),
    "workload": (read_workload, ()),
    "layers": (read_layers, ()),
    "device": (read_device, ()),
    "sweep": (lambda path: sweep_of(read_asked(path)), ("workload",)),  # which says what to sweep
    "record": (read_record, ("journal",)),
    "samples": (read_samples, ()),
}


@pytest.mark.parametrize("expected", READERS)
def test_any_kind_of_file_in_place_of_another_is_named(expected: str, one_of_each: dict[str, Path]) -> None:
    read, as_well = READERS[expected]
    assert set(one_of_each) == set(kinds.WORDS)
    for kind, path in one_of_each.items():
        if kind in (expected, *as_well):
            read(path)
        else:
            with pytest.raises(InputError) as caught:
                read(path)
            assert str(caught.value).startswith(f"{path}: is {kinds.WORDS[kind]}; expected ")


def test_two_formats_at_once_may_agree() -> None:
    pipeline = ("predict", "--h2d", "4KiB")
    assert main([*pipeline, "--json", "--format", "json"]) == 0
    assert main([*pipeline, "--format", "csv"]) == 0


def test_options_that_take_several_take_several(capsys: pytest.CaptureFixture[str]) -> None:
    settings = ("--set", "link.bandwidth=50GB/s", "--set", "compute.floor=3us")
    assert main(["predict", "--h2d", "4KiB", "--h2d", "8KiB", *settings, "--device", "h200:cupy"]) == 0
    assert "12 KiB" in capsys.readouterr().out


def test_a_program_in_another_language_than_its_calls_are_of_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    best = ("best", "--h2d", "1MiB", "--max-chunks", "2", "--max-streams", "2", "--as", "pytorch", "-o", "x.py")
    for options, told in ((("--front-end", "calls"), "bare calls"), (("--device", "h200:cupy"), "those of cupy")):
        assert main([*best, *options]) == 0
        assert f"the counted calls are {told}, but the program is written for pytorch" in capsys.readouterr().err
    for alike in ([], ["--front-end", "pytorch"], ["--device", "h200:pytorch"]):
        assert main([*best, *alike]) == 0
        assert "written for" not in capsys.readouterr().err


def test_what_stands_twice_is_an_option_and_no_word(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Short options with their values, a value that looks like an option, help and a word to complete."""
    monkeypatch.chdir(tmp_path)
    pipeline = ("code", "--h2d", "4KiB", "--as", "cupy")
    assert "--output: given twice" in refused(capsys, tmp_path, *pipeline, "-oa.py", "--output", "b.py")
    assert main(["predict", "--h2d", "4KiB", "--trace", "--chunks", "--chunks", "4"]) == 0
    assert (tmp_path / "--chunks").exists()
    assert main(["predict", "--chunks", "4", "--chunks", "8", "--help"]) == 0


def test_the_options_of_a_captured_program_are_its_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from streamsim_validate.cli import main as validate

    program = tmp_path / "program.py"
    program.write_text("print()")
    assert validate(["capture", "-o", str(tmp_path / "a.json"), "python", str(program), "-o", "x", "-o", "y"]) != 0
    assert "given twice" not in capsys.readouterr().err


def test_a_devices_name_says_what_its_calls_are_in_a_sweep_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And whatever the workload's file says."""
    monkeypatch.chdir(tmp_path)
    Path("w.toml").write_text('elements = 1024\ninputs = [4]\nfront_end = "cupy"\n')
    assert main(["sweep", "w.toml", "--chunks", "4", "--device", "h100,h200:calls"]) == 0
    assert [row.split(",")[0] for row in capsys.readouterr().out.splitlines()[1:3]] == ["h100:cupy", "h200"]
