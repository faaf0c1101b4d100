"""Bad input through the command: one clear line on stderr, exit code 2, and no file left or changed."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
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
from streamsim.text import WORDS
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


WORK = 'inputs = ["4MiB"]\noutputs = ["4MiB"]\nkernels = ["80us"]\n'

# One line of each fault: commands in a folder with the files of ``folder``, and how what they say begins.
LINES = {
    "predict --h2d 0": "--h2d = '0': ",
    "predict --h2d 4KiB --kernel 1ms/0": "--kernel launches = '0': expected a count such as 16Mi, 4M or 4096, from 1",
    "predict --h2d 4KiB --chunks 1.5": "--chunks = '1.5': ",
    "predict --h2d 4KiB --chunks 2000": "chunks = 2000: more chunks than pieces of 16 bytes (256)",
    "predict --h2d 1MiB --chunks 1,x": "chunks = 'x': expected a whole number",
    "predict --h2d 8TB --d2h 1": "device buffers of 8000000000001 bytes",
    "predict --h2d 4KiB --order depth-first,best": "order = 'best': expected one of",
    "predict --h2d 4KiB --device none.toml": "none.toml: cannot read it: no such file",
    "predict --h2d 4KiB --device h200:cupy --front-end pytorch": "front end = 'pytorch': h200:cupy has the calls of",
    "predict --h2d 4KiB --chunks 4 --chunks=8": "--chunks: given twice",
    "predict --h2d 4KiB --plot x.gif": "x.gif: expected a file name that ends in",
    "predict --h2d 4KiB --trace a\u0000b": "a\\x00b: cannot write it: embedded null byte",
    "predict a\u0000b": "a\\x00b: cannot read it: embedded null byte",
    "predict": "no workload: give --h2d SIZE",
    "predict --h2d 1MiB --chunks 1,4 --formulas": "--formulas: needs a single program",
    "predict --h2d 1MiB --chunks 1..64 --plot many.png": "--plot many.png: shows 12 time lines at most",
    "predict p.json none.json --chunks 4": "--chunks: p.json is a schedule, cut and issued already",
    "code p.json --as schedule -o p.json": "-o p.json: is the file that is read; give another name",
    "predict --h2d 4KiB --json --format csv": "--json, --format csv: they say different things",
    "predict --h2d 4KiB --format csv": "--format csv: is for the rows of a sweep, or of several programs; give --json",
    "predict --layers model.toml --chunks 4": "--chunks: does not go with --layers, which are streamed, not cut",
    "explain --h2d 4MiB --depth 2": "--depth: needs layers; add --layers FILE",
    "predict --layers model.toml --resident layer9": "resident = 'layer9': no layer has this name",
    "predict --layers model.toml --memory-limit 100MB": "device buffers of 180000000 bytes",
    "code --layers model.toml --as cupy": "language = 'cupy': layers are modules of PyTorch; write them --as pyt",
    "best --layers odd.toml --as pytorch -o x.py": "layer0: weight_bytes = 6: the layers of a program hold floats",
    "best loop.toml --max-chunks 4": "--max-chunks: loop.toml is a training loop, whose steps are not cut; leave the",
    "predict loop.toml --chunks 4": "--chunks: loop.toml is a training loop, whose steps are not cut",
    "explain loop.toml --measured 1s": "--measured: says nothing of a training loop",
    "code loop.toml --as cupy": "--as cupy: a training loop is a program of PyTorch",
    "predict empty.toml": "empty.toml: is empty; expected a workload",
    "best --layers device.toml": "device.toml: is a device profile, for --device; expected the layers of a model",
    "best none.json": "ops: there is no copy and no kernel to cut",
    "best p.json --order serial": "--order: p.json is a schedule, cut and issued already",
    "best p.json --as cupy": "--as, --output: the program needs a language and a file",
    "best --h2d 1MiB --independent": "--independent: needs a program with steps",
    "code odd.json --as cupy": "no pipeline can be written: step 8 has 4 copies",
    "whatif p.json --streams 2 --prefetch 1 --independent --as cupy -o x.py": (
        "--prefetch 1: a pipeline prefetches, or has its steps in 2 streams; leave one out"
    ),
}
TEXTS = [  # of a file called given; test_file_refusals.py has what readers find in one
    ("sweep given.json --chunks 1,2", '{"a": [1]}', "is JSON; expected a workload, in TOML\n"),
    ("check given.toml", "elements = 5", "is a workload, for `streamsim predict`; expected a schedule\n"),
    ("predict given.json --trace t.json", SCHEDULE.replace('"stream":2', '"stream":3', 1), "ops[3].stream = 3: unkn"),
    ("predict given.json --trace t.json", SCHEDULE[:-3], "is cut short (cannot be read: "),
    (
        "predict given.json",
        '{"ops":[{"op":"kernel","stream":0,"name":"saxpy","elements":9}]}',
        "kernel 'saxpy' with parameter 0: ",
    ),
    ("code given.toml -o s.json", "elements = 4\nsize = 3\n", "size = 3: unknown field"),
    (
        "predict given.toml",
        WORK + "chunks = [1, 2]",
        "chunks = [1, 2]: expected one value; several are for",
    ),
    ("predict given.toml", "what is it", "cannot be read: expected '=' after a key in a key/value pair (at line 1"),
    ("predict given.toml", WORK + 'order = "deep"', "order = 'deep': 'deep' is not one of"),
    ("devices check given.toml", DEVICE.replace("connections = 8\n", "", 1), "connections: is missing"),
    ("predict --h2d 4KiB --device given.toml", DEVICE.replace("latency_s = ", "latency_s = -"), "h2d.latency_s = -"),
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
    Path("odd.toml").write_text("[[layers]]\nweight_bytes = 6\nkernels = ['1ms']\n")
    Path("loop.toml").write_text('batch = 8\nbatch_bytes = "1MiB"\nstep = "1ms"\n')
    Path("empty.toml").write_text("")
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
        [sys.executable, "-c", limited, "predict", str(path), "--device", "ideal", "--json"],
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

    monkeypatch.setattr("streamsim.program.patterns.loop_of", no_room)
    line = refused(capsys, tmp_path, "code", "--h2d", "1GiB", "-o", str(tmp_path / "s.json"))
    assert line == "not enough memory for a schedule of this size; use fewer chunks"


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
    assert set(one_of_each) == set(WORDS)
    for kind, path in one_of_each.items():
        if kind in (expected, *as_well):
            read(path)
        else:
            with pytest.raises(InputError) as caught:
                read(path)
            assert str(caught.value).startswith(f"{path}: is {WORDS[kind]}; expected ")


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
