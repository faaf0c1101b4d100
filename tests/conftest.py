"""How the tests are run: which examples are drawn, in how many processes, and what those share.

The same examples at every run, so that a change passes or fails on its own account. A law that needs more or fewer
than 50 to find a planted fault names its number (``effort.examples``). README's command draws a fifth of them, and all
where CI is set in the environment, as ``.ci/run`` sets it. To search further: ``--hypothesis-profile=thorough``, ten
times as many.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from once import compare_once, fit_once

from streamsim import compiled
from streamsim.device import Device, library
from streamsim.errors import InputError
from streamsim.program import Schedule, Workload
from streamsim_validate.calibrate import fits
from streamsim_validate.gpu import Gpu, open_gpu

# No law is timed: the machine may be busy.
settings.register_profile("full", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=10)
settings.register_profile("thorough", deadline=None, max_examples=500)
settings.load_profile("full" if os.environ.get("CI") else "quick")


def _in_full(value: msgspec.Struct, printer: Any, _cycle: bool) -> None:
    printer.text(msgspec.Struct.__repr__(value))


for some in (Device, Schedule, Workload):  # hypothesis shows an example that fails in full, not by its short repr
    some._repr_pretty_ = _in_full  # type: ignore[union-attr]

MOST_PROCESSES = 8  # each imports everything, and takes some hundred MB
COMPILE = """
from streamsim import Workload, build, compiled, load_device
from streamsim.program.patterns import Config
device, workload = load_device("ideal"), Workload(4, (4,))
compiled.simulate_one_of_many(build(workload, "depth-first", 2, 2), device, 1 << 40)
compiled.makespans(workload, [Config("depth-first", 2, 2)], device)
"""


# Processes


if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # so in the background, and what is started here would have it so
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """A process for each core; none more than this one for the few tests that are asked for by name or marker."""
    if config.option.file_or_dir or config.option.markexpr not in ("ci", "not ci"):
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_PROCESSES) if cores > 1 else 0


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Compile the model once, while the processes collect, and not in each of them."""
    if compiled.available():
        config.stash[COMPILER] = compiling()


def compiling() -> subprocess.Popen[bytes]:
    """A process that leaves compiled code on disk."""
    here = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, "-P", "-c", COMPILE], env=here)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any) -> None:
    """No test begins before that; one that fails to compile will say so."""
    if compiler := node.config.stash.get(COMPILER, None):
        compiler.wait()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Without other processes, before commands are tried: the first to compile says so, which none of them expects."""
    alone = not (hasattr(session.config, "workerinput") or session.config.getoption("numprocesses", None))
    if alone and compiled.available() and any(map(_tries_commands, session.items)):
        compiling().wait()


def _tries_commands(item: pytest.Item) -> bool:
    folders = ("cli", "fuzz", "refused", "search")
    return item.path.parent.name in folders or hasattr(getattr(item, "module", None), "main")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Records are predicted again in ``.ci/run`` only: that takes long."""
    for item in items:
        if item.get_closest_marker("measured"):
            item.add_marker("ci")


COMPILER = pytest.StashKey[subprocess.Popen[bytes]]()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """A test, with all that it is given, to whoever is free; one process has the card, and makes what files share."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith("tests/fuzz"):
                return nodeid
            name = Path(nodeid.partition("::")[0]).name + nodeid.removeprefix(nodeid.partition("::")[0])
            return next((one for one, first in TOGETHER.items() if name.startswith(first)), nodeid.partition("[")[0])

    return Scheduling(config, log)


ON_CARD = "test_gpu"  # how the files begin whose tests need it
PAGE = "test_docs.py::test_every_block_does_what_it_says"
TOGETHER: dict[str, tuple[str, ...]] = {
    "the card": (ON_CARD,),
    "a cluster": ("test_sweep_dask",),
    "a wheel": ("test_wheel",),
    "programs in C++": ("test_code_cuda",),
    "all source files": ("test_imports",),
    "records of few schedules": ("test_page_tables",),
    "a record that is made": ("test_figures",),
    "fits and comparisons of records": (
        *("test_accuracy", "test_calibrate", "test_predictions", f"{PAGE}[validate]", f"{PAGE}[evidence]"),
        "test_campaign.py::test_schedules_are_measured",
    ),
}


# What takes long and is the same


_parse, _parse_once = library.parse_device, lru_cache(32)(library.parse_device)


def _shipped_once(text: str | bytes, where: str = "device") -> Device:
    """Parse a shipped profile once, and any other file each time, so that what it says is said."""
    return (_parse_once if where.removesuffix(library.SUFFIX) in library.device_names() else _parse)(text, where)


library.parse_device = _shipped_once


@pytest.fixture(autouse=True, scope="module")
def _what_is_here_is_no_garbage() -> None:
    """The validator collects garbage before each measurement, which takes long where there are many objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def fitting_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples that have been fitted are not fitted again."""
    monkeypatch.setattr(fits, "fit", fit_once)


@pytest.fixture
def comparing_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that a command has compared are not compared again."""
    monkeypatch.setattr("streamsim_validate.cli.compare.compare", compare_once)


# Cards


@cache
def why_no_gpu() -> str:
    """Why there is nothing to test on, or "" ."""
    try:
        with open_gpu():
            return ""
    except InputError as error:
        return str(error)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests with the marker ``gpu`` where there is no card, and say why."""
    if item.get_closest_marker("gpu") and not item.path.name.startswith(ON_CARD):
        pytest.fail(f"a test that needs a card belongs into a file {ON_CARD}_*.py: one process has the card")
    if item.get_closest_marker("gpu") and why_no_gpu():
        pytest.skip(why_no_gpu())


@pytest.fixture(scope="module")
def gpu() -> Iterator[Gpu]:
    """The card, for tests with the marker ``gpu``."""
    with open_gpu() as found:
        yield found
