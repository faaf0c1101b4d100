"""Time lines and results as text, pictures and traces; nothing here computes a prediction."""

from streamsim.report.gantt import (
    BAR,
    MOMENTS,
    MOST_BARS,
    busy_share,
    plot_compared,
    plot_gantt,
    plot_gantts,
    plot_remedied,
    save_gantt,
)
from streamsim.report.kinds import (
    ANNOTATION,
    COLOURS,
    D2H,
    H2D,
    HOST_CALL,
    HOST_WAITS,
    HOST_WORK,
    KERNEL,
    KINDS,
    PAGES,
    WAITS,
    engine_place,
    host_kinds,
    kind_of,
    numbers,
    stream_name,
)
from streamsim.report.losses import BOUND_COLOUR, LOSS_COLOURS, Losses, losses_of
from streamsim.report.overlapping_ops import lane_of_each_op
from streamsim.report.pictures import picture_format, save_picture, set_title
from streamsim.report.serial import SERIAL_WORDS, serial_timeline
from streamsim.report.tables import LONGEST_CELL, Fact, Row, Table, cut, facts, in_html, in_markdown
from streamsim.report.text import gantt, to_csv
from streamsim.report.titles import spelled_out, title_of
from streamsim.report.trace import trace_events, write_trace, write_traces
