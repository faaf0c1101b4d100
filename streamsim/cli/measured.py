"""``--measured`` of explain: one measured time or several."""

from typing import Any

import click

from streamsim.diagnosis import Measured
from streamsim.errors import InputError
from streamsim.text import parse_number, parse_seconds, shown

COPIES, UNCUT = "copies", "uncut"  # behind a measured time: without the kernels; all of the work as one chunk
FORM = (
    "a time such as 14.5ms; 4:14.5ms over 4 streams; 9ms:copies without the kernels; 20ms:uncut as one chunk;"
    " several with commas between"
)


class MeasuredTimes(click.ParamType):  # type: ignore[type-arg]  # generic in new versions of click only
    """One measured time or several, as text."""

    name = "times"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,  # noqa: ARG002 - click calls it so
        ctx: click.Context | None,  # noqa: ARG002
    ) -> tuple[Measured, ...]:
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        parts = value.split(",")
        if len(parts) > 1 and any(part.strip().isdecimal() for part in parts):
            raise InputError(f"--measured {shown(value)}: a time lacks its unit; write 16.2ms with a point, or {FORM}")
        return tuple(map(_measured, parts))


def _measured(text: str) -> Measured:

    parts = text.strip().split(":")
    how = parts[-1].strip().lower()
    *streams, time = parts[:-1] if how in (COPIES, UNCUT) else parts or [""]
    if len(streams) > 1 or not time or (streams and not streams[0].strip().isdecimal()):
        raise InputError(f"--measured {shown(text)}: expected {FORM}")
    count = parse_number(streams[0], "--measured streams") if streams else None
    return Measured(parse_seconds(time, "--measured", least=1e-9), count, how == COPIES, how == UNCUT)


measured_option = click.option(
    "--measured",
    type=MeasuredTimes(),
    metavar="TIMES",
    help="Say which usual mistake explains this measured time; such as 14.5ms, or of several runs"
    " 1:14.4ms,4:14.5ms by number of streams; 9ms:copies for a run without the kernels,"
    " 20ms:uncut for one without chunks.",
)
