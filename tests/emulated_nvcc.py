"""Programs in CUDA C++ compiled for the host, against a few lines that stand for CUDA: ``nvcc -o PROGRAM SOURCE``."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

COMPILER = shutil.which("g++")
EMULATED = Path(__file__).parent / "code" / "emulated_cuda.h"


def on_the_host(text: str, name: str) -> str:
    """The program without its includes, in a namespace of this name; a launch is a call, clock and work are logged."""
    body = re.sub(r"^#include .*\n", "", text, flags=re.M).replace("int main(", "int Main(")
    body = re.sub(r"StandIn<<<(.*?), 256, 0, stream>>>\(", r"Launched(StandIn, \1, stream)(", body)
    body = re.sub(r"(void HostWork\(double seconds\) \{\n).*?\n\}", r"\1  Worked(seconds);\n}", body, flags=re.S)
    body = body.replace("std::chrono::steady_clock::now()", "Now()")
    body = body.replace(", 4000000, stream)", ", 1, stream)")  # nothing has to hold the card while calls are made
    return f"namespace {name} {{\n{body}}}\n"


def includes_of(*texts: str) -> list[str]:
    """The standard headers of all these, and what stands for CUDA."""
    headers = {line for text in texts for line in re.findall(r"^#include <[^c.]\S*>|^#include <c\w+>", text, re.M)}
    return [*sorted(headers), f'#include "{EMULATED}"']


def compile_for_the_host(source: Path, program: Path) -> subprocess.CompletedProcess[str]:
    """With warnings as errors."""
    assert COMPILER is not None
    call = [COMPILER, "-std=c++17", "-Wall", "-Werror", "-o", str(program), str(source)]
    return subprocess.run(call, capture_output=True, text=True, check=False)


def write_nvcc(folder: Path) -> None:
    """A command ``nvcc`` in the folder, which is this file, and counts what it compiles in ``compiled`` beside it."""
    script = folder / "nvcc"
    script.write_text(f'#!/bin/sh\necho "$@" >> "{folder}/compiled"\nexec {sys.executable} {__file__} "$@"\n')
    script.chmod(0o755)


def main(arguments: list[str]) -> int:
    """As nvcc."""
    source = Path(arguments[-1])
    program = Path(arguments[arguments.index("-o") + 1])
    text = source.read_text(encoding="utf-8")
    rewritten = source.with_suffix(".cc")
    end = "int main(int argc, char** argv) { return program::Main(argc, argv); }\n"
    rewritten.write_text("\n".join([*includes_of(text), on_the_host(text, "program"), end]), encoding="utf-8")
    done = compile_for_the_host(rewritten, program)
    sys.stderr.write(done.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
