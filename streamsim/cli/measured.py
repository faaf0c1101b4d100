"""``--measured`` of explain: one measured time or several."""

import click

from streamsim.cli.options import Quantity
from streamsim.diagnosis import Measured
from streamsim.errors import InputError
from streamsim.text import parse_number, parse_seconds, shown

COPIES, UNCUT = "copies", "uncut"  # behind a measured time: without the kernels; all of the work as one chunk
FORM = (
    "a time such as 14.5ms; 4:14.5ms over 4 streams; 9ms:copies without the kernels; 20ms:uncut as one chunk;"
    " several with commas between"
)


def parse_measured(text: str, field: str) -> tuple[Measured, ...]:
    """Return one measured time or several. Raises InputError naming ``field``."""
    parts = text.split(",")
    if len(parts) > 1 and any(part.strip().isdecimal() for part in parts):
        raise InputError(f"{field} {shown(text)}: a time lacks its unit; write 16.2ms with a point, or {FORM}")
    return tuple(_measured(part, field) for part in parts)


def _measured(text: str, field: str) -> Measured:
    parts = text.strip().split(":")
    how = parts[-1].strip().lower()
    *streams, time = parts[:-1] if how in (COPIES, UNCUT) else parts or [""]
    if len(streams) > 1 or not time or (streams and not streams[0].strip().isdecimal()):
        raise InputError(f"{field} {shown(text)}: expected {FORM}")
    count = parse_number(streams[0], f"{field} streams") if streams else None
    return Measured(parse_seconds(time, field, least=1e-9), count, how == COPIES, how == UNCUT)


measured_option = click.option(
    "--measured",
    type=Quantity("times", parse_measured),
    metavar="TIMES",
    help="Say which usual mistake explains this measured time; such as 14.5ms, or of several runs"
    " 1:14.4ms,4:14.5ms by number of streams; 9ms:copies for a run without the kernels,"
    " 20ms:uncut for one without chunks.",
)
