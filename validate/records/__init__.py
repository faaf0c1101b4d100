"""What was measured: the shipped records, and the code that reads and writes such files. Needs no card.

A :class:`Record` holds runs, a run its entries: each a schedule (or the :class:`Recipe` of one) and its samples. While
it is being measured it is a :class:`Journal`. What the numbers of a record mean is here, too: which schedule a time is
of (``timed``), what a measured time line shows (``spans``), and what the probes among the schedules say of the host's
calls (``chains``, ``host_calls``).
"""

from streamsim_validate.records.card import CALIBRATED_ON, Card, check_same_card
from streamsim_validate.records.chains import Chain, ChainRow, Timing, per_link, rows_of, timings_of
from streamsim_validate.records.files import check_writable, finish, read_record, write_record
from streamsim_validate.records.host_calls import (
    CHUNK,
    MIX_LENGTH,
    MIXES,
    RECORD_CHAINS,
    SYNCHRONISE_CHAINS,
    WAIT_CHAINS,
    HostCalls,
    fit_host_calls,
    growths_over_streams,
    mix_kind,
)
from streamsim_validate.records.journal import (
    Header,
    Journal,
    RunBegins,
    RunEnds,
    Traced,
    header,
    journal_path,
    read_journal,
)
from streamsim_validate.records.recipe import Recipe, Value, digest, workload_key
from streamsim_validate.records.record import (
    NORMAL,
    Entry,
    Group,
    Machine,
    Record,
    Run,
    median_and_spread,
    now,
    relative_deviation,
    to_times,
)
from streamsim_validate.records.spans import (
    COMPUTE,
    D2H,
    H2D,
    NOTHING,
    Activity,
    MeasuredColumns,
    Spans,
    engine_of,
    spans_of,
    timeline_of,
)
from streamsim_validate.records.stored import MOST_VALUES, read_stored, unzipped
from streamsim_validate.records.timed import closed, first_closing, with_timing_events

__all__ = [
    "CALIBRATED_ON",
    "CHUNK",
    "COMPUTE",
    "D2H",
    "H2D",
    "MIXES",
    "MIX_LENGTH",
    "MOST_VALUES",
    "NORMAL",
    "NOTHING",
    "RECORD_CHAINS",
    "SYNCHRONISE_CHAINS",
    "WAIT_CHAINS",
    "Activity",
    "Card",
    "Chain",
    "ChainRow",
    "Entry",
    "Group",
    "Header",
    "HostCalls",
    "Journal",
    "Machine",
    "MeasuredColumns",
    "Recipe",
    "Record",
    "Run",
    "RunBegins",
    "RunEnds",
    "Spans",
    "Timing",
    "Traced",
    "Value",
    "check_same_card",
    "check_writable",
    "closed",
    "digest",
    "engine_of",
    "finish",
    "first_closing",
    "fit_host_calls",
    "growths_over_streams",
    "header",
    "journal_path",
    "median_and_spread",
    "mix_kind",
    "now",
    "per_link",
    "read_journal",
    "read_record",
    "read_stored",
    "relative_deviation",
    "rows_of",
    "spans_of",
    "timeline_of",
    "timings_of",
    "to_times",
    "unzipped",
    "with_timing_events",
    "workload_key",
    "write_record",
]
