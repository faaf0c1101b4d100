"""Fetch Pyodide and the wheels beside it with npm and pip, the only programs that streamsim runs."""

import shutil
import subprocess
import sys
from pathlib import Path

from streamsim.errors import InputError
from streamsim.playground import MSGSPEC, PLATFORM, PYODIDE, SIMPY
from streamsim.text import one_line

NPM = ("npm", "pack", f"pyodide@{PYODIDE}", "--ignore-scripts", "--silent", "--fetch-retries=0")
PIP = (
    *("-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--retries=0", "--no-deps"),
    *("--only-binary=:all:", f"--platform={PLATFORM}", "--python-version=3.14", "--implementation=cp"),
    *(f"msgspec=={MSGSPEC}", f"simpy=={SIMPY}"),
)
LONGEST_S = 300.0  # of one of these commands


def fetch(folder: Path) -> None:
    """Fetch Pyodide and the wheels into ``folder``. Raises InputError, which says what cannot be had and why."""
    npm = shutil.which("npm")
    if npm is None:
        raise _not_had("npm, which fetches Pyodide, is not installed")
    _run("npm", (npm, *NPM[1:]), folder)
    _run("pip", (sys.executable, *PIP), folder)


def _run(name: str, command: tuple[str, ...], folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _not_had(f"{name} failed: {error}") from None
    if done.returncode:
        said = [line.strip() for line in done.stderr.splitlines() if "ERR" in line or "No module" in line]
        raise _not_had(f"{name} failed: {said[0] if said else f'exit code {done.returncode}'}")


def _not_had(reason: str) -> InputError:
    return InputError(one_line(f"the playground needs Pyodide: {reason}; or give --pyodide FOLDER with its files"))
