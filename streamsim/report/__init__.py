"""Time lines and results as text, pictures and traces; nothing here computes a prediction."""

from streamsim.report.best import best_table, how_sure, what_stays
from streamsim.report.diagnosis import apart_table, diagnosis_tables, explaining_table, nearest, other_table
from streamsim.report.explanation import FOLDED, loss_tables, summary_of, summary_table
from streamsim.report.gantt import (
    BAR,
    BOUND_COLOUR,
    CAUSE_COLOURS,
    MOMENTS,
    MOST_BARS,
    MOST_STREAMS,
    busy_share,
    plot_compared,
    plot_explanation,
    plot_gantt,
    plot_gantts,
    plot_remedied,
    save_compared,
    save_explanation,
    save_gantt,
    save_gantts,
)
from streamsim.report.kinds import (
    COLOURS,
    D2H,
    H2D,
    HOST_CALL,
    HOST_WAITS,
    KERNEL,
    PAGES,
    WAITS,
    engine_place,
    kind_of,
    may_wait,
    numbers,
)
from streamsim.report.overlapping_ops import lane_of_each_op
from streamsim.report.recording import choices_table, recording_table
from streamsim.report.replay import replay_json, replay_table
from streamsim.report.serial import SERIAL_WORDS, serial_timeline
from streamsim.report.sweep import column_words, common_words, sweep_table, value_order, value_words
from streamsim.report.tables import Table, facts, in_html
from streamsim.report.text import IDLE, PARTLY, STREAM_LETTERS, gantt, summary, to_csv
from streamsim.report.titles import spelled_out, title_of
from streamsim.report.trace import ENGINES, HOST, STREAMS, trace_events, write_trace, write_traces
from streamsim.report.training import loop_table
from streamsim.report.what_if import what_if_table
