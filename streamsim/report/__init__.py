"""Time lines and results as text, pictures and traces; nothing here computes a prediction."""

from streamsim.report.bars import (
    ANNOTATION,
    BOUND_COLOUR,
    COLOURS,
    D2H,
    H2D,
    HOST_CALL,
    HOST_WAITS,
    HOST_WORK,
    KERNEL,
    KINDS,
    LOSS_COLOURS,
    PAGES,
    SERIAL_WORDS,
    WAITS,
    Losses,
    engine_place,
    host_kinds,
    kind_of,
    lane_of_each_op,
    losses_of,
    numbers,
    serial_timeline,
    stream_name,
)
from streamsim.report.pictures import (
    picture_format,
    plot_compared,
    plot_gantt,
    plot_gantts,
    plot_remedied,
    save_picture,
)
from streamsim.report.texts import (
    LONGEST_CELL,
    Fact,
    Row,
    Table,
    cut,
    facts,
    gantt,
    in_html,
    in_markdown,
    title_of,
    to_csv,
)
from streamsim.report.trace import trace_events, write_trace, write_traces
