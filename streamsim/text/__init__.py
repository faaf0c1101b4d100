"""Text that people write and read: sizes, times and rates, ranges of them, and the kind of a file from its content."""

from streamsim.checks import shown
from streamsim.lines import (
    FORMULA,
    LONGEST_LINE,
    as_unicode,
    counted,
    from_cell,
    listed,
    one_line,
    printable,
    short,
    to_cell,
    uncapitalised,
)
from streamsim.text.quantities import (
    ALL,
    RATE,
    check_listed,
    chosen,
    expand,
    format_between,
    format_bytes,
    format_change,
    format_ratio,
    format_seconds,
    format_share,
    parse_bandwidth,
    parse_buffers,
    parse_bytes,
    parse_count,
    parse_number,
    parse_seconds,
    parse_share,
    parser_for,
    rounded,
    unit_of,
)
from streamsim.text.recognise import GZIP_MAGIC, LARGEST_TOML_BYTES, WORDS, is_cut_short, kind_of, mistaken_for
