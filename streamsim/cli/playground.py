"""A page in which one drags the parts of a pipeline and sees what becomes of it."""

from pathlib import Path
from tempfile import TemporaryDirectory

import click

from streamsim.cli.brief_help import BriefCommand
from streamsim.cli.fetch_pyodide import fetch
from streamsim.cli.options import FILE
from streamsim.cli.printing import PAGE
from streamsim.files import write_text
from streamsim.playground import playground_html, read_browser_python


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
