"""Markdown pages as tests: their fenced blocks, and what the commands in them do.

A block's first word is its language, the words behind it say what it is for. In a folder of its own, from top to
bottom (:class:`Reader`):

``console``      lines with ``$`` are commands, which end with exit code 0 (``exits 1``: with 1); lines that follow are
                 their output, compared as doctest does: white space is free and ``...`` stands for anything
``console gpu``  some of the commands need a card. They are run without one, where they end with exit code 3 and one
                 line; then a stand-in, of the committed runs or simulated, takes the place of the file that they would
                 write
``python``       runs, in one namespace for the page; what it prints is compared with a ``text`` block right after it
``toml NAME``    a file, and so ``json NAME``
"""

import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from made_captures import of_the_guide
from msgspec.structs import replace

from streamsim.cli import main
from streamsim_validate.cli import main as validate
from streamsim_validate.records import read_record, write_record

ROOT = Path(__file__).parent.parent
FENCED = re.compile(r"^```(\w+)(?: ([^\n]*))?\n(.*?)^```$", re.S | re.M)
FREE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
RECORD = ROOT / "validate" / "campaigns" / "records" / "standard-h200-1.json.gz"
PROFILE = ROOT / "streamsim" / "device" / "profiles" / "h200.toml"
MEASURED = 8  # schedules of the committed record that stand in for a new one
NO_GPU = 3
ON_A_CARD = ("calibrate", "run", "tune", "capture")


class Block(NamedTuple):
    """A fenced block; ``line``: of the page, its first one."""

    language: str
    words: tuple[str, ...]
    text: str
    line: int


class Command(NamedTuple):
    """A command line, and what the page shows of its output."""

    line: str
    shown: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.line, comments=True)

    @property
    def needs_gpu(self) -> bool:
        words = self.words
        return words[0] == "streamsim-validate" and words[1] in ON_A_CARD and "--from" not in words

    @property
    def output(self) -> Path:
        """The file that a command which needs a card would write."""
        return Path(self.words[self.words.index("-o") + 1])


def blocks(text: str, language: str | None = None) -> list[Block]:
    """The fenced blocks of a page, in their order."""
    found = [
        Block(match[1], tuple((match[2] or "").split()), match[3], text.count("\n", 0, match.start()) + 1)
        for match in FENCED.finditer(text)
    ]
    return [block for block in found if language in (None, block.language)]


def commands(block: Block) -> list[Command]:
    """The commands of a console block."""
    head, *parts = re.split(r"^\$ ", block.text, flags=re.M)
    assert not head, f"line {block.line}: output without a command: {head!r}"
    return [Command(*part.partition("\n")[::2]) for part in parts]


class Reader:
    """Does what a page says, in the current folder."""

    def __init__(self) -> None:
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._printed: str | None = None  # by the block just before

    def read(self, text: str) -> None:
        """Every block of a page; AssertionError where one does not do what it says."""
        for block in blocks(text):
            try:
                self._do(block)
            except AssertionError as error:
                raise AssertionError(f"line {block.line}: {error}") from error

    def _do(self, block: Block) -> None:
        printed, self._printed = self._printed, None
        match block.language, *block.words:
            case "console", *options:
                self._console(block, options)
            case "python", *_:
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    exec(compile("\n" * block.line + block.text, "the page", "exec"), self._names)
                self._printed = out.getvalue()
            case "text", *_:
                assert printed is not None, "output without a python block before it"
                assert_shown(block.text, printed)
            case (("toml" | "json"), name):
                Path(name).write_text(block.text, encoding="utf-8")
            case _:
                raise AssertionError(f"```{block.language} {' '.join(block.words)}: no such kind of block")

    def _console(self, block: Block, options: list[str]) -> None:
        found = commands(block)
        expected = int(options[1]) if options[:1] == ["exits"] else 0
        assert options in ([], ["gpu"], ["exits", str(expected)]), options
        assert any(command.needs_gpu for command in found) == (options == ["gpu"]), "mark what needs a card, only that"
        for command in found:
            if command.needs_gpu:
                run_without_gpu(command)
                write_stand_in(command)
            else:
                code, printed = run(command)
                assert code == expected, f"$ {command.line}\nends with exit code {code}:\n{printed}"
                if command.shown.strip():
                    assert_shown(command.shown, printed)


def run(command: Command) -> tuple[int, str]:
    """Exit code and output; the latter goes to a file where the line says ``> FILE``."""
    program, *arguments = command.words
    if ">" in arguments:
        *arguments, _, target = arguments
        code, printed = call(program, arguments)
        Path(target).write_text(printed, encoding="utf-8")
        return code, ""
    return call(program, arguments)


def call(program: str, arguments: list[str]) -> tuple[int, str]:
    """Exit code of a program that a page may show, and what it prints; notes on stderr are no output."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        match program:
            case "streamsim":
                code = main(arguments)
            case "streamsim-validate":
                code = validate(arguments)
            case "pip":
                code = check_extras(arguments)
            case "sphinx-build":  # the site is of the repository, and goes into the test's folder
                *options, source, site = arguments
                assert source == "."
                words = [sys.executable, "-m", "sphinx", *options, source, str(Path(site).resolve())]
                done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
                print(done.stdout, end="")
                code = done.returncode
            case _:
                raise AssertionError(f"$ {program}: not a program that a page may show")
    return code, out.getvalue()


def check_extras(arguments: list[str]) -> int:
    """Nothing is installed by a test; but what the page tells to install is there."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    install, what = arguments
    match = re.fullmatch(r"\.\[([\w,]+)\]", what)
    assert install == "install"
    assert match, f"{what}: expected extras of this project"
    assert set(match[1].split(",")) <= set(extras), f"{what}: no such extra"
    return 0


def run_without_gpu(command: Command) -> None:
    """Its options are right, and then it says in one line that there is no card."""
    code = "import sys; from streamsim_validate.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, *command.words[1:]],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == NO_GPU, f"$ {command.line}\nends with {done.returncode}: {done.stderr}"
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert not command.output.exists()


def write_stand_in(command: Command) -> None:
    """What a card would give: of the committed runs, or simulated."""
    if command.words[1] == "calibrate":
        shutil.copy(PROFILE, command.output)
    elif command.words[1] == "capture":
        command.output.write_bytes(of_the_guide(command.output.name.startswith("after")))
    else:
        record = read_record(RECORD)
        first = record.runs[0]
        few = replace(first, entries=first.entries[:MEASURED])
        write_record(replace(record, runs=(few,)), command.output)


def assert_shown(shown: str, printed: str) -> None:
    """``printed`` is what the page shows, but for white space and what ``...`` stands for."""
    matches = doctest.OutputChecker().check_output(shown, printed, FREE)
    assert matches, f"the page shows\n{shown}\nbut this was printed\n{printed}"
