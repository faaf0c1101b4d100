"""A page in which one drags the parts of a pipeline and sees what becomes of it."""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from streamsim.cli.options import FILE, PAGE
from streamsim.cli.running import BriefCommand
from streamsim.errors import InputError
from streamsim.files import write_text
from streamsim.playground import MSGSPEC, PLATFORM, PYODIDE, SIMPY, playground_html, read_browser_python

# npm and pip are the only programs that streamsim runs.
NPM = ("npm", "pack", f"pyodide@{PYODIDE}", "--ignore-scripts", "--silent", "--fetch-retries=0")
PIP = (
    *("-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--retries=0", "--no-deps"),
    *("--only-binary=:all:", f"--platform={PLATFORM}", "--python-version=3.14", "--implementation=cp"),
    *(f"msgspec=={MSGSPEC}", f"simpy=={SIMPY}"),
)
LONGEST_S = 300.0  # of one of these commands


@click.command("playground", cls=BriefCommand)
@click.option("--output", "-o", type=PAGE, required=True, help="The page to write: one .html file of about 9 MB.")
@click.option(
    "--pyodide",
    type=FILE,
    metavar="FOLDER",
    envvar="STREAMSIM_PYODIDE",
    help="A folder that holds Pyodide's archive and the two wheels. Default: fetch them.",
)
def playground_command(output: Path, pyodide: Path | None) -> None:
    """Write a page in which you drag sizes, times, chunks and streams, and see the time line change.

    The page holds the model itself and a Python that runs in the browser (Pyodide). It opens from disk and needs no
    network. To write it, npm and pip fetch Pyodide and two wheels, 7 MB in all, unless --pyodide names a folder with
    them.

    \b
    Examples:
      streamsim playground -o streamsim.html
      streamsim playground -o streamsim.html --pyodide pyodide

    Exit codes: 0 ok, 2 usage or bad input.
    """  # noqa: D301 - click wants the backspace itself
    if pyodide is not None:
        python = read_browser_python(pyodide)
    else:
        with TemporaryDirectory() as folder:
            fetch(Path(folder))
            python = read_browser_python(Path(folder))
    write_text(playground_html(python), output)


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
    return InputError(f"the playground needs Pyodide: {reason}; or give --pyodide FOLDER with its files")
