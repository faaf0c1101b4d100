"""What the figures of measured runs share: which records they show, the colours, how they are saved.

Each script draws the committed records, predicted with the profile that was calibrated before each run, and
writes the picture beside itself:

    python figures/accuracy.py [RECORD]... [--device PROFILE] [--output PICTURE]
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamsim.device import Device, load_device
from streamsim.errors import InputError
from streamsim.files import write_bytes
from streamsim.report import COLOURS, D2H, H2D, HOST_CALL, HOST_WAITS, KERNEL, WAITS
from streamsim_validate.compare import BLOCKING, DEVICE_BOUND, HOST_BOUND, PAGEABLE, Row, compare
from streamsim_validate.records import Record, read_record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI, FONT_PT, SMALL_PT = 160, 9.0, 7.5
INK, RULE = "#222222", "#CCCCCC"
BLUE, ORANGE, LIGHT, PURPLE, DARK, PALE = (COLOURS[kind] for kind in (H2D, KERNEL, D2H, WAITS, HOST_CALL, HOST_WAITS))
CLASS_STYLE = {  # class: colour and marker, so that they are told apart without colour too
    DEVICE_BOUND: (BLUE, "o"),
    HOST_BOUND: (ORANGE, "s"),
    BLOCKING: (PURPLE, "D"),
    PAGEABLE: (DARK, "^"),
}
STANDARD, RANDOM = "standard-*.json.gz", "random-*.json.gz"  # records of the standard suite, and of random schedules
FOLDER = Path(__file__).parents[1] / "validate" / "campaigns" / "records"


class Runs:
    """The records to draw, and the profile that replaces their own (None: none does)."""

    def __init__(self, records: list[Record], device: Device | None = None) -> None:
        self.records = records
        self.device = device

    @property
    def cards(self) -> str:
        """The cards that were measured, each once, in the order of the records."""
        return ", ".join(dict.fromkeys(record.card.name for record in self.records))

    def rows(self) -> list[Row]:
        """Every schedule of every record, measured and predicted."""
        return [row for record in self.records for row in compare(record, self.device).rows]


def main(script: str, draw: Callable[[Runs], Figure], records: str) -> None:
    """Draw as the command line says; a failure is one line and exit code 2. ``records``: the committed ones to draw."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("records", nargs="*", type=Path, help="default: the committed ones")
    parser.add_argument("--device", help="a device profile in place of the records' own calibration")
    parser.add_argument("--output", type=Path, default=Path(script).with_suffix(".png"))
    arguments = parser.parse_args()
    try:
        paths = arguments.records or committed(records)
        device = None if arguments.device is None else load_device(arguments.device)
        figure = draw(Runs([read_record(path) for path in paths], device))
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=DPI)
        write_bytes(picture.getvalue(), arguments.output)
    except InputError as error:
        print(f"{Path(script).name}: {error}", file=sys.stderr)
        sys.exit(2)


def committed(names: str) -> list[Path]:
    """The committed records with these names. Raises InputError when there are none."""
    paths = sorted(FOLDER.glob(names))
    if not paths:
        raise InputError(f"{FOLDER}: has no record of runs; measure one, or name a record")
    return paths


def tidy(axes: Any) -> None:
    """Light rules, no box, small words."""
    axes.grid(color=RULE, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["right", "top"]].set_visible(False)
    axes.tick_params(labelsize=SMALL_PT, colors=INK)
    axes.xaxis.label.set_size(FONT_PT)
    axes.yaxis.label.set_size(FONT_PT)


def legend(figure: Figure, axes: Any, columns: int) -> None:
    """Put the legend of ``axes`` below the figure, beside no data."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=SMALL_PT, frameon=False)


def heading(figure: Figure, words: str) -> None:
    """Words above all panels, at their left."""
    figure.suptitle(words, x=0.01, ha="left", fontsize=FONT_PT, color=INK)


def title(axes: Any, words: str) -> None:
    """Words above the axes, at their left."""
    axes.set_title(words, loc="left", fontsize=FONT_PT, color=INK)
