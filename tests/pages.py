"""What the tests of pages have in common: programs to show, commands that save pages, and what a page holds."""

import csv
import hashlib
import io
import json
import random
import re
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from strategies import d2h, h2d, kernel, make_device, plan

from streamsim.cli import main
from streamsim.compiled import simulate_one_of_many
from streamsim.playground import pyodide
from streamsim.program import Workload, WorkloadKernel, depth_first
from streamsim.timeline import Timeline

HOSTILE = "@data@ @body@ </script><script>alert(1)</script><img src=x onerror=alert(2)>'\"&"
WORKLOAD = Workload(None, (1 << 24,), (1 << 24,), (WorkloadKernel("kernel", 0.2e-3),))
PIPELINE = depth_first(WORKLOAD, 6, 3)
SIZES = ("--h2d", "16MiB", "--kernel", "0.2ms", "--d2h", "16MiB")
CUT = (*SIZES, "--chunks", "4", "--streams", "2")
CONFIGS: tuple[tuple[str, ...], ...] = (
    ("predict", *CUT),
    ("explain", *CUT),
    ("best", *SIZES, "--max-chunks", "6", "--max-streams", "3"),
    ("explain", *CUT, "--measured", "0.9ms"),
    ("loop", "--batch", "256", "--batch-bytes", "154MB", "--step", "45ms", "--load", "240ms", "--workers", "4"),
)
MAPS: dict[str, tuple[str, ...]] = {
    "best": ("best", *SIZES, "--max-chunks", "8", "--max-streams", "3", "--device", "a100", "--launch", "both"),
    "sweep": (
        "sweep",
        *(*SIZES, "--chunks", "1..8", "--streams", "1..3", "--order", "depth-first,breadth-first"),
        *("--device", "h200,a100", "--set", "link.bandwidth=10GB/s,40GB/s", "--set", "host.kernel=4us"),
    ),
    "arrays": ("sweep", "--h2d", "1MiB..4MiB*2", "--kernel", "0.1ms,0.3ms", "--chunks", "2,4", "--streams", "2"),
}
TINY_PYODIDE = {
    "pyodide.js": b"var loadPyodide = async () => { throw new Error('</script>') };",
    "pyodide.asm.mjs": b"var _createPyodideModule = () => import.meta.url;export default _createPyodideModule;",
    "pyodide.asm.wasm": b"\0asm",
    "python_stdlib.zip": b"none",
    "pyodide-lock.json": b'{"info": {"python": "3.14"}, "packages": {"numpy": {}}}',
}


def irregular(count: int) -> Timeline:
    """A time line of so many copies and kernels at least, hardly two of the same length."""
    chance = random.Random(3)
    ops = [
        op
        for k in range(count // 3 + 1)
        for op in (
            h2d(k % 4 + 1, chance.randrange(1, 200_000)),
            kernel(k % 4 + 1, chance.randrange(1, 200_000)),
            d2h(k % 4 + 1, chance.randrange(1, 200_000)),
        )
    ]
    return simulate_one_of_many(plan(*ops), make_device(copy=700, kernel=900), many=1 << 30)


def data_of(html: str) -> dict[str, Any]:
    """What a page hands to its viewer."""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)
    data: dict[str, Any] = json.loads(found)
    return data


def saved(name: str, folder: Path) -> dict[str, Any]:
    """Call one of MAPS; what its page, ``page.html``, hands to its viewer. Rows: ``rows.csv``."""
    path = folder / "page.html"
    output = ["-o", str(folder / "rows.csv")] if MAPS[name][0] == "sweep" else []
    assert main([*MAPS[name], *output, "--page", str(path)]) == 0
    return data_of(path.read_text())


def said_by(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with path.open() as file:
        return list(csv.DictReader(file))


def tiny_pyodide(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put files into ``folder`` that have the names of Pyodide's and of the wheels, and are taken for them."""
    for name in pyodide.PINNED:
        data = io.BytesIO()
        if name == pyodide.ARCHIVE:
            with tarfile.open(fileobj=data, mode="w:gz") as archive:
                for member, content in TINY_PYODIDE.items():
                    about = tarfile.TarInfo(f"package/{member}")
                    about.size = len(content)
                    archive.addfile(about, io.BytesIO(content))
        else:
            with zipfile.ZipFile(data, "w") as wheel:
                wheel.writestr(f"{name.partition('-')[0]}/__init__.py", "")
        (folder / name).write_bytes(data.getvalue())
        monkeypatch.setitem(pyodide.PINNED, name, hashlib.sha256(data.getvalue()).hexdigest())
