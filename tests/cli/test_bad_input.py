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
from strategies import pipeline_of

from streamsim.cli import main
from streamsim.device.files import dump_device, read_device, write_device
from streamsim.device.library import load_device
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.program.files import dump_schedule, read_schedule, read_workload, write_schedule, write_workload
from streamsim.program.layer_files import read_layers, write_layers
from streamsim.program.patterns import depth_first
from streamsim.report.trace import write_trace
from streamsim.search.sweep_text import read_asked, sweep_of
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


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("--h2d -64MiB", "--h2d = '-64MiB': "),
        ("--h2d 0", "--h2d = '0': "),
        ("--h2d nan", "--h2d = 'nan': "),
        ("--h2d inf", "--h2d = 'inf': "),
        ("--h2d 1e30", "--h2d = '1e30': "),
        ("--h2d 64m", "--h2d = '64m': "),
        ("--h2d 64M", "--h2d = '64M': "),
        ("--h2d 1.5", "--h2d = '1.5': "),
        ("--h2d 3ms", "--h2d = '3ms': "),
        ("--h2d abc", "--h2d = 'abc': "),
        ("--h2d 4KiB --d2h 12Kb", "--d2h = '12Kb': "),
        ("--kernel -1ms", "--kernel = '-1ms': "),
        ("--kernel 0", "--kernel = '0': "),
        ("--kernel nan", "--kernel = 'nan': "),
        ("--kernel 1e-30", "--kernel = '1e-30': "),
        ("--kernel 2days", "--kernel = '2days': "),
        ("--kernel 1e9", "--kernel = '1e9': "),
        ("--kernel 64MiB", "--kernel = '64MiB': "),
        ("--h2d 4KiB --chunks 0", "--chunks = '0': "),
        ("--h2d 4KiB --chunks -1", "--chunks = '-1': "),
        ("--h2d 4KiB --chunks 1.5", "--chunks = '1.5': "),
        ("--h2d 4KiB --chunks x", "--chunks = 'x': "),
        ("--h2d 4KiB --chunks 2000", "chunks = 2000: more chunks than pieces of 16 bytes (256)"),
        ("--h2d 1GiB --chunks 1e9", "--chunks = '1e9': "),
        ("--h2d 4KiB --streams 0", "--streams = '0': "),
        ("--h2d 4KiB --streams 2147483647", "--streams = '2147483647': "),
        ("--h2d 4KiB --buffers 0", "--buffers = '0': "),
        ("--h2d 4KiB --buffers 2 --order breadth-first", "buffers = 2: "),
        ("--h2d 4KiB --connections 0", "connections = 0: expected a whole number from 1 to 32"),
        ("--h2d 4KiB --connections 33", "connections = 33: expected a whole number from 1 to 32"),
        ("--h2d 4KiB --connections many", "Invalid value for '--connections': 'many'"),
        ("--h2d 4KiB --elements 0", "--elements = '0': "),
        ("--h2d 4KiB --elements 1000", "elements = 1000: does not divide h2d = 4096 bytes"),
        ("--h2d 4KiB --d2h 1000 --elements 1024", "elements = 1024: does not divide d2h = 1000 bytes"),
        ("--h2d 8TB --d2h 1", "device buffers of 8000000000001 bytes"),
        ("--h2d 4KiB --order random", "Invalid value for '--order': 'random'"),
        ("--h2d 4KiB --memory managed", "Invalid value for '--memory': 'managed'"),
        ("--h2d 4KiB --launch later", "Invalid value for '--launch': 'later'"),
        ("--h2d 4KiB --launch graph --order serial", "launch = 'graph': "),
        (
            "--h2d 4KiB --launch graph --memory pageable",
            "launch = 'graph': pageable copies cannot be captured; use pinned memory",
        ),
        ("--h2d 4KiB --chunks 4 --streams 4 --order serial", "streams = 4: a serial program has one stream"),
        ("--h2d 4KiB --chunks 4 --buffers 2 --order serial", "buffers = 2: a ring of buffers is issued depth-first"),
        ("--h2d 4KiB --format xml", "Invalid value for '--format': 'xml'"),
        ("--h2d 4KiB --device b201", "device = 'b201': "),
        ("--h2d 4KiB --device none.toml", "none.toml: cannot read it: no such file"),
        ("--h2d 4KiB --device .", "device = '.': "),
        ("--h2d", "Option '--h2d' requires an argument"),
        ("--h2d 4KiB --colour red", "No such option"),
        ("--h2d 4KiB --plot none/x.png", "none/x.png: there is no folder"),
        ("--h2d 4KiB --plot x.gif", "x.gif: expected a file name that ends in"),
        ("--h2d 4KiB --trace none/x.json", "none/x.json: there is no folder"),
        ("--h2d 4KiB --trace .", ".: is a folder; name a file in it"),
        ("none.toml", "none.toml: cannot read it: no such file"),
        ("none.toml --h2d 4KiB", "none.toml: give a workload file or --h2d"),
        ("a\0b", "a\\x00b: cannot read it: embedded null byte"),
        ("--h2d 4KiB --trace a\0b", "a\\x00b: cannot write it: embedded null byte"),
        ("a.toml b.toml", "Got unexpected extra argument"),
        ("", "no workload: give --h2d SIZE"),
    ],
)
def test_predict_options(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert refused(capsys, tmp_path, "predict", *options.split()).startswith(named)


def test_a_stray_argument_cannot_colour_the_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert refused(capsys, tmp_path, "predict", "a.toml", "\x1b[31m").startswith(
        "Got unexpected extra argument (\\x1b[31m)"
    )


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "a\nb", "\x1b[31mred", "h200 ", ""])
def test_strange_device_names(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    refused(capsys, tmp_path, "predict", "--h2d", "4KiB", "--device", name)
    refused(capsys, tmp_path, "devices", "show", name)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("predikt",), "No such command 'predikt'"),
        (("simulate",), "Missing argument 'SCHEDULE.json...'"),
        (("devices", "show"), "Missing argument 'NAME'"),
        (("devices", "show", "b201"), "device = 'b201': "),
        (("devices", "check", "none.toml"), "none.toml: cannot read it: no such file"),
        (("devices", "check", "."), ".: cannot read it: is a directory"),
        (("schema", "poem"), "Invalid value for '{schedule|workload|layers|device}': 'poem'"),
        (("schedule", "--h2d", "4KiB", "-o", "none/s.json"), "none/s.json: there is no folder"),
        (("schedule", "--h2d", "4KiB", "-o", "."), ".: is a folder; name a file in it"),
        (("schedule", "--h2d", "4KiB", "--chunks", "0", "-o", "s.json"), "--chunks = '0': "),
    ],
)
def test_other_commands(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    named: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert refused(capsys, tmp_path, *arguments).startswith(named)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty; expected a workload"),
        ('{"a": [1]}', "is JSON; expected a workload, in TOML"),
        ('{"inputs": {"streams": 4}, "makespan_s": 1', "is JSON; expected a workload, in TOML"),
    ],
)
def test_what_is_no_workload_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    assert refused(capsys, tmp_path, "predict", str(path)).removeprefix(f"{path}: ") == said


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (SCHEDULE.replace('"stream":2', '"stream":3', 1), "ops[3].stream = 3: unknown stream"),
        (SCHEDULE.replace('"buffer":"d_in0"', '"buffer":"x"', 1), "ops[0].device.buffer = 'x': unknown buffer"),
        (
            SCHEDULE.replace('{"op":"synchronize"}', '{"op":"wait","event":7,"stream":1}', 1),
            "ops[6].event = 7: unknown event",
        ),
        (SCHEDULE.replace('"offset":128,', '"offset":129,', 1), "ops[3].host"),
        (f'{{"ops":[{COPY}]}}', "ops[0].stream = 1: unknown stream"),
        ('{"ops":[]}', "ops = []: an empty schedule"),
        ("{}", "ops: is missing"),
        (SCHEDULE[:200], "is cut short (cannot be read: "),
        (SCHEDULE[:-3], "is cut short (cannot be read: "),
        ("not json", "cannot be read: "),
        ("", "is empty; expected a schedule"),
        ('{"ops":[' + COPY.replace("8", "0") + "]}", "ops[0].bytes = 0: "),
        ('{"ops":[' + COPY.replace("8", "1" + "0" * 30) + "]}", "ops[0].bytes = 1000"),
        ('{"ops":[{"op":"kernel","stream":0,"name":"saxpy","elements":9}]}', "kernel 'saxpy' with parameter 0: "),
    ],
)
def test_schedule_files(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    line = refused(capsys, tmp_path, "simulate", str(path), "--trace", str(tmp_path / "t.json"))
    assert line.removeprefix(f"{path}: ").startswith(named)


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


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
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
    ],
)
def test_device_files(capsys: pytest.CaptureFixture[str], tmp_path: Path, old: str, new: str, named: str) -> None:
    path = tmp_path / "card.toml"
    assert old in DEVICE
    path.write_text(DEVICE.replace(old, new, 1))
    for arguments in (("devices", "check", str(path)), ("predict", "--h2d", "4KiB", "--device", str(path))):
        assert refused(capsys, tmp_path, *arguments).removeprefix(f"{path}: ").startswith(named)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("elements = 0\n", "elements = 0: "),
        ("elements = 4\nsize = 3\n", "size = 3: unknown field"),
        ("elements = 4\n[[kernels]]\nduration_s = '4MiB'\n", "kernels[0].duration_s = '4MiB': expected a time"),
        ("elements = 4\n[[kernels", "cannot be read: "),
        ("elements = 4\ninputs = [0]\n", "inputs[0] = 0: expected a whole number"),
        ("elements = 4\ninputs = []\noutputs = []\nkernels = []\n", "inputs, outputs, kernels: "),
    ],
)
def test_workload_files(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "work.toml"
    path.write_text(text)
    line = refused(capsys, tmp_path, "schedule", str(path), "-o", str(tmp_path / "s.json"))
    assert line.removeprefix(f"{path}: ").startswith(named)


def test_the_other_command_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    schedule, workload = tmp_path / "plan.json", tmp_path / "work.toml"
    schedule.write_text('{"ops": []}')
    workload.write_text("elements = 5")
    assert "ops = []: an empty schedule" in refused(capsys, tmp_path, "predict", str(schedule))
    said = refused(capsys, tmp_path, "simulate", str(workload))
    assert said.endswith(": is a workload, for `streamsim predict`; expected a schedule")


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


def test_two_formats_at_once_are_refused_unless_they_agree(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pipeline = ("predict", "--h2d", "4KiB")
    for both in (("--json", "--format", "csv"), ("--format", "csv", "--json")):
        for command in (pipeline, ("sweep", *pipeline[1:])):
            assert "--json, --format csv: they say different things" in refused(capsys, tmp_path, *command, *both)
    assert main([*pipeline, "--json", "--format", "json"]) == 0
    assert main([*pipeline, "--format", "csv"]) == 0


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("predict --h2d 4KiB --chunks 4 --chunks=8", "--chunks: given twice"),
        ("sweep --h2d 4KiB --device a100 --device h200", "--device: given twice"),
        ("predict --h2d 4KiB --order serial --order prefetch", "--order: given twice"),
        (
            "predict --h2d 4KiB --device h200:cupy --front-end pytorch",
            "front end = 'pytorch': h200:cupy has the calls of",
        ),
        ("predict --h2d 4KiB --device h200:cupy --front-end calls", "front end = 'calls': h200:cupy has the calls of"),
        ("sweep --h2d 4KiB --device a100,h200:cupy --front-end cupy,pytorch", "front end = 'pytorch': h200:cupy has"),
        ("sweep --h2d-once 4KiB", "no workload: give --h2d SIZE, --kernel TIME or --d2h SIZE, as nothing is cut"),
        ("predict --h2d-once 4KiB --chunks 4", "chunks = 4: there is nothing to cut"),
        (
            "predict --h2d 4KiB --kernel 1ms/0",
            "--kernel launches = '0': expected a count such as 16Mi, 4M or 4096, from 1",
        ),
    ],
)
def test_what_would_be_passed_over_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert refused(capsys, tmp_path, *options.split()).startswith(named)


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
        assert f"the calls are {told}, and the program is written for pytorch" in capsys.readouterr().err
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
