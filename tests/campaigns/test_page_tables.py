"""The tables of the pages are made from the records, by the command that the page names.

What a cell says is the records' and the model's business. A table of the page has the head and as many rows as the
command gives today, and a page names no table that there is not.
"""

from pathlib import Path
from statistics import median

import msgspec
import pytest
from effort import THOROUGH

from campaigns import tables
from campaigns.tables import PLACE, TABLES, newest, pages, ways
from streamsim import load_device
from streamsim.compiled import available
from streamsim_validate.compare import DEVICE_BOUND, HOST_BOUND, compare, percentile95
from streamsim_validate.records import Record, read_record

EVERY = 20  # schedules of a record, one in so many
QUICK = ("accuracy", "lengths", "programs")  # of an ordinary run; a thorough one makes all

ON_PAGES = [
    (page, place[2], place[3]) for page in pages() for place in PLACE.finditer(page.read_text(encoding="utf-8"))
]


@pytest.fixture(scope="module")
def few() -> object:
    """The records with few of their schedules, and intervals of few draws."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "read", lambda path: _few(read_record(path)))
        patch.setattr(tables, "SAMPLES", 20)
        tables.comparison.cache_clear()
        yield
        tables.comparison.cache_clear()


def _few(record: Record) -> Record:
    runs = tuple(msgspec.structs.replace(run, entries=run.entries[::EVERY]) for run in record.runs)
    return msgspec.structs.replace(record, runs=runs)


@pytest.mark.skipif(not available(), reason="numba is not installed")
@pytest.mark.measured
@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(("page", "name", "shown"), ON_PAGES, ids=[name for _, name, _ in ON_PAGES])
def test_the_command_that_a_page_names_makes_its_table(page: Path, name: str, shown: str) -> None:
    if name not in QUICK and not THOROUGH:
        pytest.skip("some ten seconds; a thorough run does it")
    made = str(TABLES[name]()).splitlines()
    there = shown.splitlines()
    assert there[:2] == made[:2], f"{page.name}: cd validate; python -m campaigns.tables --write"
    assert [row.split("|")[1] for row in there] == [row.split("|")[1] for row in made]


def test_every_table_is_on_a_page() -> None:
    assert {name for _, name, _ in ON_PAGES} == set(TABLES)


def test_every_effect_that_is_switched_off_is_one_that_the_ideal_device_lacks() -> None:
    ideal, real = load_device("ideal"), load_device("h200")
    assert all(without(ideal) == ideal for without in ways().values())
    assert [name for name, without in ways().items() if without(real) == real] == ["**the model**"]


@pytest.mark.skipif(not available(), reason="numba is not installed")
@pytest.mark.measured
@pytest.mark.parametrize(
    "path", [path for paths in newest("programs-suite", 1).values() for path in paths], ids=lambda path: path.name
)
def test_compiled_programs_are_predicted_from_the_whole_kernel_alone(path: Path) -> None:
    """To the goals that they are held to with a chunk's time as well: 2 and 8 % device-bound, 8 and 25 % host-bound."""
    (run,) = (record := read_record(path)).runs
    own = tuple(
        msgspec.structs.replace(entry, program=msgspec.structs.replace(entry.program, chunks_s=()))
        for entry in run.entries
        if entry.program and entry.program.language == "cuda-c++"
    )
    rows = compare(msgspec.structs.replace(record, runs=(msgspec.structs.replace(run, entries=own),))).rows
    for klass, middle, p95 in ((DEVICE_BOUND, 0.025, 0.08), (HOST_BOUND, 0.08, 0.25)):
        found = [abs(row.error) for row in rows if row.klass == klass]
        assert median(found) <= middle
        assert percentile95(found) <= p95
