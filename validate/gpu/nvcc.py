"""Programs in C++, compiled with nvcc in a folder that is removed with them.

Programs that are known beforehand are compiled side by side, before anything is measured.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from streamsim.errors import InputError
from streamsim_validate.gpu.card import first_error_line
from streamsim_validate.progress import OnStep, quietly

NVCC = "nvcc"
VISIBLE = "CUDA_VISIBLE_DEVICES"


def has_nvcc() -> bool:
    """Return whether there is a compiler."""
    return shutil.which(NVCC) is not None


class Compiled:
    """A compiler of programs, each once, which runs them on the card of that number, in processes of their own."""

    def __init__(self, card: int = 0) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="streamsim-")
        self._programs: dict[str, Path | InputError] = {}  # by text; or why there is none
        seen = [name for name in os.environ.get(VISIBLE, "").split(",") if name.strip()]
        self._environment = os.environ | {VISIBLE: seen[card] if card < len(seen) else str(card)}

    def said(self, text: str, words: Sequence[str], names: Sequence[str]) -> list[Any]:
        """Return the values that a program, run with ``words``, prints under ``names`` in its lines of JSON.

        Raises InputError if it does not compile, or does not print them.
        """
        program = self._compiled(text)
        done = subprocess.run([program, *words], capture_output=True, text=True, env=self._environment, check=False)
        try:
            found: dict[str, Any] = {}
            for line in done.stdout.splitlines():
                found |= json.loads(line)
            return [found[name] for name in names]
        except (ValueError, KeyError, TypeError):
            reason = done.stderr.strip().splitlines()[-1:] or ["it says nothing"]
            raise InputError(f"exit code {done.returncode}: {reason[0]}") from None

    def prepare(self, texts: Iterable[str], on_step: OnStep = quietly) -> None:
        """Compile these side by side. An error is raised when its program is to run."""
        new = [text for text in dict.fromkeys(texts) if text not in self._programs]
        numbers = range(len(self._programs), len(self._programs) + len(new))
        pool = ThreadPoolExecutor(os.cpu_count())
        try:
            for done, found in enumerate(pool.map(self._built, new, numbers)):
                on_step("compiling programs", done, len(new))
                self._programs[new[done]] = found
        finally:
            pool.shutdown(cancel_futures=True)  # Ctrl-C waits for those that have begun

    def _compiled(self, text: str) -> Path:
        self.prepare([text])
        found = self._programs[text]
        if isinstance(found, InputError):
            raise found
        return found

    def _built(self, text: str, number: int) -> Path | InputError:
        program = Path(self._folder.name) / f"pipeline{number}"
        source = program.with_suffix(".cu")
        source.write_text(text, encoding="utf-8")
        call = [NVCC, "-O3", "-o", str(program), str(source)]
        done = subprocess.run(call, capture_output=True, text=True, env=self._environment, check=False)
        if done.returncode:
            return InputError(f"it does not compile: {first_error_line(done.stderr or done.stdout)}")
        return program

    def close(self) -> None:
        """Remove the folder."""
        self._folder.cleanup()
