"""What a command says of its options: how it begins, and what it shows behind the dots."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from layered import layers_of
from made_recordings import kineto, pipeline
from refusals import refused
from strategies import d2h, h2d, kernel, plan

from streamsim.files import write_toml
from streamsim.program import HostWork, Synchronize, write_schedule

WORK = "--h2d 64KiB --kernel 20us --d2h 64KiB"
COPY = '{"op":"copy","direction":"h2d","bytes":%d,"stream":1}'
SCHEDULE = '{"ops":[%s],"streams":["blocking"]}'
LINES = {
    # Values
    "predict --h2d 0": "--h2d = '0': expected a size",
    "predict --h2d 4KiB --kernel 1ms/0": "--kernel = '1ms/0': launches = 0: expected a whole number from 1",
    "predict --h2d 4KiB --order depth-first,best": "order = 'best': expected one of",
    "predict --h2d 4KiB --set host.copy=4GB/s": "host.copy_s = '4GB/s': expected a time",
    "predict p.json p.json --device ,": "device = '': neither a shipped profile",
    "predict --h2d 4KiB --device none.toml": "none.toml: cannot read it: no such file",
    "predict --h2d 4KiB --trace a\0b": "a\\x00b: cannot write it: embedded null byte",
    "predict --h2d 4KiB --plot x.gif": "x.gif: expected a file name that ends in",
    "predict --h2d 4KiB --chunks 4 --chunks=8": "--chunks: given twice",
    "predict --kernl 3": "...--kernl...--kernel",
    "predict --layers model.toml --resident layer9": "resident = 'layer9': no layer has this name",
    "loop --batch 2 --step 0s --batch-bytes 1MB": "--step = '0s': expected a time such as",
    "loop --batch 2 --step 45ms --sample 3x4": "...expected a shape and a type",
    # Options that do not go together, or with what is read
    "predict": "no workload: give --h2d SIZE",
    "predict --h2d 1MiB --chunks 1,4 --formulas": "--formulas: needs a single program",
    "predict --h2d 4KiB --json --format csv": "--json, --format: they say different things",
    "predict --h2d 4KiB --format csv": "--format csv: is for the rows of a sweep, or of several programs; give --json",
    "predict --h2d 4KiB --device h200:cupy --front-end pytorch": "front end = 'pytorch': h200:cupy has the calls of",
    "predict p.json none.json --chunks 4": "--chunks: p.json is a schedule, cut and issued already",
    "predict --layers model.toml --chunks 4": "--chunks: does not go with --layers, which are streamed, not cut",
    "explain loop.toml --measured 1s": "--measured: says nothing of a training loop",
    "explain --h2d 4MiB --depth 2": "--depth: needs layers; add --layers FILE",
    "best p.json --as cupy": "--as, --output: the program needs a language and a file",
    "best --h2d 1MiB --independent": "--independent: needs a program with steps",
    "loop --batch 2 --step 45ms": "...give one of the two",
    "loop p.json --sample 3x4:uint8": "--sample: the recording shows it",
    f"code {WORK} -o x.py": "--as: no language; give one of cupy, pytorch, cuda-c++",
    "code p.json --as schedule -o p.json": "-o p.json: is the file that is read; give another name",
    "explain t.json --trace t.json": "--trace t.json: is the file that is read; give another name",
    "explain t.json --gpu 3": "--gpu = 3: not in the recording; it has 0",
    "explain t.json --window stop": "--window = 'stop': no annotation has this name (--list; or times",
    "explain t.json --window 9s..10s": "--window 9s..10s: no call and no work is in it",
    "explain t.json --untraced-time fast": "--untraced-time = 'fast': expected a time",
    "whatif p.json --streams 2 --prefetch 1 --independent --as cupy -o x.py": "--prefetch 1: a pipeline prefetches, or",
    # Programs that cannot be, or be written
    "predict --h2d 4KiB --chunks 2000": "chunks = 2000: more chunks than pieces of 16 bytes (256)",
    "predict --h2d 8TB --d2h 1": "device buffers of 8000000000001 bytes",
    "predict --h2d 1MiB --chunks 1..64 --plot many.png": "--plot many.png: shows 12 time lines at most",
    "best none.json": "ops: there is no copy and no kernel to cut",
    "code odd.json --as cupy": "no pipeline can be written: step 8 has the kernel 'kernel' where step 2 has nothing",
    f"code {WORK} --d2h 32 --as cupy --chunks 3": "chunks = 3: an array has pieces for 2 chunks only",
    f"code {WORK} --order prefetch --streams 2 --as cupy": "streams = 2: the order prefetch has 3 streams of its own",
    "code --h2d 3000 --elements 1000 --as cupy": "h2d[0] = 3 bytes an element: the arrays",
    "code --kernel 1ms --as cupy": "kernels: the program needs an array that they work on",
    f"code {WORK}{' --h2d 64KiB' * 3} --as pytorch": "4 input arrays: no element-wise operation of PyTorch",
    "code bytes.json --as cupy": "ops[0].bytes = 6: the arrays of a program hold floats",
    "code many.json --as cupy": "ops: 2001 calls written out are no program to read",
    "code loop.toml --as cupy": "--as cupy: a training loop is a program of PyTorch",
    # Grids
    "best --h2d 4KiB --max-chunks 1000000 --max-streams 1000": "chunks, streams: a grid of 2000000000 programs",
    "best --h2d 4KiB --h2d-once 8 --memory-limit 8": "memory_limit_bytes = 8 (8 B)...takes 40 B",
    "best --h2d 4KiB --memory-limit 64 --order breadth-first": "...; use buffers = 2, chunks = 256, depth-first over 2",
    "sweep --h2d 4KiB --chunks 4..1": "chunks = '4..1': expected a smaller and a larger number",
    "sweep --h2d 1KiB..4KiB": "h2d = '1KiB..4KiB': a range without a step",
    "sweep --h2d 4KiB --chunks 1..1000 --streams 1..1000 --format table": "1,000,000 combinations are too many for a t",
    "sweep --h2d 4KiB --launch graph --memory pageable": "an empty grid: none of its 1 combinations can be issued: ",
    "sweep --h2d 4KiB --device h200,h200": "device = 'h200': two profiles of this name",
    "sweep --h2d 4KiB --workers 2 --dask tcp://x:1": "--workers, --dask: both spread the sweep; give one",
    "sweep --h2d 1MiB --chunks 1..1000 --streams 1..1000 -o x.csv --page x.html": "...1,000,000 rows are more than",
    "sweep --file bad.toml": "bad.toml: colour = 'red': unknown; expected one of",
}


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The folder of the process, with programs and layers, good and bad ones."""
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("options"))
    step = h2d(1, 4 << 20), HostWork(2e-6), kernel(1, 50_000, name="gemm"), d2h(1, 4 << 20)
    write_schedule(plan(*step * 8, Synchronize(), streams=1), "p.json")
    write_schedule(plan(*step * 8, kernel(1, 5), Synchronize(), streams=1), "odd.json")
    write_schedule(plan(HostWork(1.0)), "none.json")
    write_toml(layers_of((40_000_000, 900_000), (90_000_000, 500_000), (10_000_000, 3_000_000)), "model.toml")
    texts = {
        "loop.toml": 'batch = 8\nbatch_bytes = "1MiB"\nstep = "1ms"\n',
        "bad.toml": 'colour = "red"\n',
        "t.json": kineto(*pipeline()),
        "bytes.json": SCHEDULE % (COPY % 6),
        "many.json": SCHEDULE % ",".join([COPY % 4] * 2001),
    }
    for name, text in texts.items():
        Path(name).write_text(text)
    yield
    os.chdir(before)


@pytest.mark.parametrize(("line", "said"), LINES.items(), ids=range(len(LINES)))
def test_a_command_says_in_one_line_what_is_wrong(capsys: pytest.CaptureFixture[str], line: str, said: str) -> None:
    refused(line.split(), capsys, said)
