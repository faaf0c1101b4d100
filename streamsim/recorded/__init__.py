"""Recordings by profilers: a reader for each format, one value for all of them, parts of it, summaries, replays."""

from streamsim.recorded.builder import RecordingBuilder
from streamsim.recorded.costs import HostCosts, profile_of
from streamsim.recorded.cupti import read_captured
from streamsim.recorded.kineto import write_recording
from streamsim.recorded.program import program_of
from streamsim.recorded.read import kind_given, read_recording
from streamsim.recorded.recording import (
    NONE,
    AnnotationKind,
    Annotations,
    CallKind,
    CardWork,
    CopyDirection,
    CopyMemory,
    HostCalls,
    RecordedCard,
    RecordedStream,
    RecordedStreamKind,
    RecordedThread,
    Recording,
    WorkKind,
)
from streamsim.recorded.replay import (
    EngineReplay,
    Replay,
    Unrecorded,
    recorded_times,
    replay,
    warnings_of,
    without_recording,
)
from streamsim.recorded.summary import (
    RecordedAmount,
    RecordedCalls,
    RecordedCardUse,
    RecordingSummary,
    pages_to_prefetch,
    summarise,
    verdict_of,
)
from streamsim.recorded.windows import (
    NamedSpan,
    busiest_card,
    named_spans,
    names_of,
    part_of,
    times_of,
    untraced_time_s,
    window_ns,
)
