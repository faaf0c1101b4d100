"""Recordings by profilers: a reader for each format, one value for all of them, parts of it, summaries, replays."""

from streamsim.recorded.builder import RecordingBuilder
from streamsim.recorded.captured import read_captured
from streamsim.recorded.card_profile import profile_of
from streamsim.recorded.copy_rates import LEAST_BYTES, copy_rates, held_ns
from streamsim.recorded.file_kinds import kind_given
from streamsim.recorded.kineto import LEGACY_STREAM
from streamsim.recorded.op_times import recorded_times
from streamsim.recorded.program import program_of
from streamsim.recorded.read import read_recording
from streamsim.recorded.recording import (
    NONE,
    AnnotationKind,
    Annotations,
    CallKind,
    CardWork,
    CopyDirection,
    CopyMemory,
    HostCalls,
    PageKind,
    RecordedCard,
    RecordedStream,
    RecordedStreamKind,
    RecordedThread,
    Recording,
    WorkKind,
)
from streamsim.recorded.recording_costs import ENOUGH, HostCosts, by_asking, costs_of, while_recorded
from streamsim.recorded.replay import (
    PREDICTED,
    TAKEN,
    EngineReplay,
    Misplaced,
    Replay,
    Unrecorded,
    replay,
    untraced,
    warnings_of,
    without_recording,
)
from streamsim.recorded.simulated import write_recording
from streamsim.recorded.summary import (
    RecordedAmount,
    RecordedCalls,
    RecordedCardUse,
    RecordedReason,
    RecordingSummary,
    engines_of,
    summarise,
)
from streamsim.recorded.uncontended import uncontended_ns
from streamsim.recorded.untraced_times import untraced_time_s
from streamsim.recorded.verdict import calls_before, verdict_of
from streamsim.recorded.windows import (
    NamedSpan,
    are_times,
    busiest_card,
    check_window,
    named_spans,
    names_of,
    part_of,
    window_ns,
)
