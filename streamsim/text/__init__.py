"""Text that people write and read: sizes, times and rates, ranges of them, and the kind of a file from its content."""

from streamsim.text.quantities import (
    RATE,
    TIME,
    check_listed,
    format_between,
    format_bytes,
    format_change,
    format_ratio,
    format_seconds,
    format_share,
    parse_bandwidth,
    parse_bytes,
    parse_count,
    parse_number,
    parse_seconds,
    parse_share,
    parser_for,
    rounded,
    unit_of,
)
from streamsim.text.ranges import ALL, Parse, chosen, expand, parse_buffers
from streamsim.text.recognise import GZIP_MAGIC, LARGEST_TOML_BYTES, WORDS, is_cut_short, kind_of, mistaken_for
from streamsim.text.shown import (
    FORMULA,
    LONGEST_LINE,
    as_unicode,
    from_cell,
    one_line,
    printable,
    short,
    shown,
    to_cell,
    uncapitalised,
)
from streamsim.text.words import counted, listed
