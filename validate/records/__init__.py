"""Records of measurements, and the code that reads and writes them. Needs no card.

A :class:`Record` holds runs, a run its entries: each a schedule (or the :class:`Recipe` of one) and its samples. While
it is being measured it is a :class:`Journal`. What the numbers of a record mean is here, too: which schedule a time is
of (``timed``), what a measured time line shows (``spans``), and what the probes among the schedules say of the host's
calls (``chains``, ``host_calls``).
"""

from streamsim_validate.records.card import CALIBRATED_ON, Card, check_same_card
from streamsim_validate.records.chains import (
    SHORTEST_S,
    Chain,
    ChainRow,
    PaceRow,
    Timing,
    per_link,
    rows_of,
    timings_of,
)
from streamsim_validate.records.files import check_replaceable, finish, read_record, write_record
from streamsim_validate.records.host_calls import (
    MIX_LENGTH,
    MIXES,
    PACE_CHAIN,
    RECORD_CHAINS,
    SYNCHRONISE_CHAINS,
    WAIT_CHAINS,
    HostCalls,
    mix_kind,
    mixes_s,
    speed_of,
    usual_pace_s,
)
from streamsim_validate.records.journal import (
    Header,
    Journal,
    RunBegins,
    RunEnds,
    Traced,
    check_unused,
    header,
    journal_path,
    read_journal,
)
from streamsim_validate.records.program_rounds import (
    CHUNK_ROUND,
    ENTERS,
    LINEAR_ROUND,
    LINK_BYTES,
    LINK_PAIR,
    PROGRAMS,
    STAND_IN,
    config_of,
    costs_in,
    key_of,
    linear_layers,
    round_s,
    stand_ins,
)
from streamsim_validate.records.recipe import Recipe, Value, digest, recipe_of, relay, workload_key
from streamsim_validate.records.record import (
    NORMAL,
    PACE_ROUND,
    Entry,
    Group,
    Machine,
    Program,
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
