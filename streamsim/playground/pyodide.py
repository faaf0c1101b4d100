"""Python for the browser: Pyodide and the packages that the model needs, checked and packed together.

Pyodide is CPython compiled to WebAssembly. Its files and the wheels are no part of streamsim. They come from their
package registries (:mod:`streamsim.cli.playground`), each in one version whose SHA-256 is written here.
"""

import hashlib
import io
import tarfile
import zipfile
from importlib.metadata import version
from pathlib import Path

import msgspec

from streamsim.errors import InputError
from streamsim.files import read_bytes

PYODIDE, MSGSPEC, SIMPY = "314.0.7", "0.22.0", "4.1.2"
PLATFORM = "pyemscripten_2026_0_wasm32"  # the platform of this version of Pyodide, which runs Python 3.14
ARCHIVE = f"pyodide-{PYODIDE}.tgz"
PINNED = {  # SHA-256 by name of file
    ARCHIVE: "66b7949e5a0cba2250b586d7e368bf12fb482800748d182c4618254b685ffaa0",
    f"msgspec-{MSGSPEC}-cp314-cp314-{PLATFORM}.whl": "a66b1766311e42371e509c996c3933b161c7ae0eabdf361af5316dec197e1022",
    f"simpy-{SIMPY}-py3-none-any.whl": "43071f84b6512c9b4fcb33ef057f240ccb1d1f3b263f9b4f9229d072e310b372",
}
MOST_BYTES = 64 << 20  # of one of the files
SCRIPTS = ("package/pyodide.js", "package/pyodide.asm.mjs")
LOCK = "package/pyodide-lock.json"  # lists the packages that Pyodide can load; ours lists none
BINARIES = ("package/pyodide.asm.wasm", "package/python_stdlib.zip")
PACKAGE = Path(__file__).parents[1]
CODE = (".py", ".toml")  # the files of streamsim that the browser needs: its code, and its profiles
EARLIEST = (1980, 1, 1, 0, 0, 0)  # the time of every file in an archive, so that the same code gives the same bytes


class BrowserPython(msgspec.Struct, frozen=True):
    """The Python that a browser runs: a ``script``, and the ``files`` that it reads, by name."""

    script: str
    files: dict[str, bytes]


def read_browser_python(folder: Path) -> BrowserPython:
    """Return Python from the files in ``folder``, with streamsim.

    Raises InputError for a missing file, and for one whose SHA-256 is not the pinned one.
    """
    found = {name: _pinned(folder / name, digest) for name, digest in PINNED.items()}
    parts = _members(found.pop(ARCHIVE))
    script = "\n".join(parts[name].decode() for name in SCRIPTS)
    # a page opened from disk cannot start a worker from modules
    script = script.replace("import.meta.url", "''").replace("export default _createPyodideModule;", "")
    binaries = {name.rpartition("/")[2]: parts[name] for name in BINARIES}
    lock = {"info": msgspec.json.decode(parts[LOCK])["info"], "packages": {}}
    return BrowserPython(script, {**binaries, "lock.json": msgspec.json.encode(lock), "site.zip": _site(found)})


def _pinned(path: Path, digest: str) -> bytes:
    if not path.exists():
        raise InputError(f"{path}: is not there; docs/playground.md says how to fetch it")
    data = read_bytes(path, MOST_BYTES)
    if hashlib.sha256(data).hexdigest() != digest:
        raise InputError(f"{path}: is another file than the one that streamsim knows: its SHA-256 differs")
    return data


def _members(data: bytes) -> dict[str, bytes]:
    """Return the files of Pyodide's archive that a browser needs."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        found = {name: archive.extractfile(name) for name in (*SCRIPTS, *BINARIES, LOCK)}
        return {name: file.read() for name, file in found.items() if file is not None}


def _site(wheels: dict[str, bytes]) -> bytes:
    """Return one archive of the packages in ``wheels`` and of streamsim; the page deflates it whole."""
    about = f"Metadata-Version: 2.1\nName: streamsim\nVersion: {version('streamsim')}\n".encode()
    members = {"absent.py": Path(__file__).with_name("absent.py").read_bytes(), "streamsim.dist-info/METADATA": about}
    for data in wheels.values():
        with zipfile.ZipFile(io.BytesIO(data)) as wheel:
            members |= {name: wheel.read(name) for name in wheel.namelist()}
    code = (file for file in sorted(PACKAGE.rglob("*")) if file.suffix in CODE)
    members |= {file.relative_to(PACKAGE.parent).as_posix(): file.read_bytes() for file in code}
    site = io.BytesIO()
    with zipfile.ZipFile(site, "w") as into:
        for name, content in members.items():
            into.writestr(zipfile.ZipInfo(name, EARLIEST), content)
    return site.getvalue()
