"""What the room refuses: a program that cannot be written is one line that says why, and no file."""

from functools import partial
from pathlib import Path

import pytest
from refusals import refusal, refusal_of

from streamsim.code import Language, code_of_layers
from streamsim.program import Layer, Layers, Offload, WorkloadKernel

SIZES = ("--h2d", "64KiB", "--kernel", "20us", "--d2h", "64KiB")
COPIES = '{"ops":[{"op":"copy","direction":"h2d","bytes":%d,"stream":%d}],"streams":["blocking"]}'
MANY = (
    '{"ops":[' + ",".join(['{"op":"copy","direction":"h2d","bytes":4,"stream":1}'] * 2001) + '],"streams":["blocking"]}'
)

# What follows ``code``, and what it says.
COMMANDS: list[tuple[tuple[str, ...], str]] = [
    ((*SIZES, "-o", "x.py"), "--as: no language; give one of cupy, pytorch, cuda-c++"),
    (
        (*SIZES, "--as", "cupy", "--order", "prefetch", "--streams", "2"),
        "streams = 2: the order prefetch has 3 streams of its own",
    ),
    ((*SIZES, "--d2h", "32", "--as", "cupy", "--chunks", "3"), "chunks = 3: an array has pieces for 2 chunks only"),
    (("--h2d", "3000", "--elements", "1000", "--as", "cupy"), "h2d[0] = 3 bytes an element: the arrays"),
    (("--kernel", "1ms", "--as", "cupy"), "kernels: the program needs an array that they work on"),
    ((*SIZES, *("--h2d", "64KiB") * 3, "--as", "pytorch"), "4 input arrays: no element-wise operation of PyTorch"),
    (("blocking.json", "--as", "pytorch"), "streams = 'blocking': the streams of PyTorch are non-blocking"),
    (("odd.json", "--as", "cupy"), "ops[0].bytes = 6: the arrays of a program hold floats"),
    (("many.json", "--as", "cupy"), "ops: 2001 calls written out are no program to read"),
]


@pytest.mark.parametrize(("arguments", "shows"), COMMANDS, ids=[said[:40] for _, said in COMMANDS])
def test_a_command_says_in_one_line_what_is_wrong_and_writes_nothing(
    arguments: tuple[str, ...],
    shows: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (("blocking", COPIES % (8, 1)), ("odd", COPIES % (6, 1)), ("many", MANY)):
        Path(f"{name}.json").write_text(text)
    before = sorted(Path().iterdir())
    output = () if "-o" in arguments else ("-o", "pipeline.py")
    assert shows in refusal_of(["code", *arguments, *output], capsys)
    assert sorted(Path().iterdir()) == before


def layers_of(*weight_bytes: int, name: str = "") -> Layers:
    """A model of layers of so many bytes, of 1 us each."""
    return Layers(tuple(Layer(n_bytes, (WorkloadKernel(duration_s=1e-6),), name) for n_bytes in weight_bytes))


LAYERS: list[tuple[Layers, Language, str]] = [
    (layers_of(16, 12), "pytorch", "layer1: weight_bytes = 12: the layers of a program hold floats, some at least"),
    (layers_of(18, name="odd"), "pytorch", "odd: weight_bytes = 18: the layers of a program hold floats"),
    (layers_of(16, 16), "cupy", "language = 'cupy': layers are modules of PyTorch; write them --as pytorch"),
    (layers_of(16, 16), "cuda-c++", "language = 'cuda-c++': layers are modules of PyTorch"),
]


@pytest.mark.parametrize(("layers", "language", "begins"), LAYERS, ids=[said[:40] for *_, said in LAYERS])
def test_layers_that_cannot_be_written_are_named(layers: Layers, language: Language, begins: str) -> None:
    assert refusal(partial(code_of_layers, layers, Offload(), language)).startswith(begins)
