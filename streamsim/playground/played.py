"""The playground's controls and lessons, and the model's answers to a choice.

The same functions answer on this machine and in the browser, where Pyodide runs them. A choice has a text for each
control: the value of an option of ``streamsim predict``, or of a setting of the profile. An empty text leaves the
profile's own value.
"""

import shlex
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import msgspec

from streamsim.advice import explain
from streamsim.analysis import Prediction, predict, work_bound
from streamsim.answer import lines_of, prediction_answer
from streamsim.device import Device, changed, device_names, load_device, parse_settings
from streamsim.errors import InputError
from streamsim.page import headline_html, line_data, losses_html
from streamsim.program import HOST_MEMORIES, ORDERS, Config, HostMemory, Order, useful_streams, workload_of_sizes
from streamsim.report import losses_of
from streamsim.text import parse_bandwidth, parse_bytes, parse_number, parse_seconds
from streamsim.transform import Source

POWERS = tuple(f"{part * (1 << power):g}" for power in range(10) for part in (1, 1.25, 1.5, 1.75))
TENS = [part * ten for ten in (1, 10, 100) for part in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6.4, 8)]
SIZES = (*(f"{n}{unit}" for unit in ("KiB", "MiB") for n in POWERS), "1GiB")
TIMES = tuple(f"{n:g}{unit}" for unit in ("us", "ms") for n in TENS)
COUNTS = tuple(map(str, (*range(1, 17), *range(18, 33, 2), *range(36, 65, 4))))
RATES = ("", *(f"{n:g}GB/s" for n in TENS))


class Control(msgspec.Struct, frozen=True):
    """A control of the page: a list of the ``values`` of an option or of a profile's setting.

    ``usual``: the value in lessons that need no other. With ``parse``, which reads a value, the control is a text, and
    a slider that has the values.
    """

    name: str
    words: str
    usual: str
    values: tuple[str, ...]
    parse: Callable[[str], float] | None = None

    def place_of(self, text: str) -> int | None:
        """Return the place of the first value that is at least as large as ``text``; None if it is not read."""
        assert self.parse is not None
        with suppress(InputError):
            least = self.parse(text) if text else 0.0
            below = [value for value in self.values if not value or self.parse(value) < least]
            return min(len(below) if text else 0, len(self.values) - 1)
        return None


class Lesson(msgspec.Struct, frozen=True):
    """A choice to begin with, and ``words`` that say what to look at and what to try."""

    name: str
    words: str
    choice: dict[str, str]


CONTROLS = (
    Control("--h2d", "bytes copied in", "64MB", SIZES, parse_bytes),
    Control("--kernel", "time of the kernel", "1ms", TIMES, parse_seconds),
    Control("--d2h", "bytes copied back", "64MB", SIZES, parse_bytes),
    Control("--chunks", "chunks", "4", COUNTS, parse_number),
    Control("--streams", "streams", "4", COUNTS, parse_number),
    Control("link.bandwidth", "link", "64GB/s", RATES, parse_bandwidth),
    Control("--order", "order", "depth-first", ORDERS),
    Control("--memory", "host memory", "pinned", HOST_MEMORIES),
    Control("copy_engines.count", "copy engines", "", ("", "1", "2")),
    Control("--device", "device", "ideal", tuple(device_names())),
)
EQUAL = {control.name: control.usual for control in CONTROLS}
OF_A_CARD = {**EQUAL, "link.bandwidth": "", "--device": "h200"}
README = {"--h2d": "64MiB", "--kernel": "0.57ms", "--d2h": "64MiB", "--chunks": "16"}
FERMI = {"--h2d": "16MB", "--kernel": "3ms", "--d2h": "16MB", "--order": "breadth-first", "--device": "c2050"}
LESSONS = (
    Lesson(
        "Sixteen chunks",
        "64 MiB go to an H200, a kernel works on them for 0.57 ms, and 64 MiB come back. In 16 chunks over 4 streams,"
        " that takes about half the time. Drag the chunks: few overlap little, and many cost calls and latencies.",
        {**OF_A_CARD, **README},
    ),
    Lesson(
        "Four equal chunks",
        "Copy in, kernel and copy back take 1 ms each. In four chunks over four streams they take half the time of the"
        " serial program. Drag the chunks: the more there are, the nearer the time comes to a third.",
        EQUAL,
    ),
    Lesson(
        "One copy engine",
        "One engine copies in both directions, in the order of issue. Depth-first, the copy back of chunk 1 stands"
        " before the copy in of chunk 2 and must wait for the kernel: nothing overlaps. Choose breadth-first.",
        {**EQUAL, "copy_engines.count": "1"},
    ),
    Lesson(
        "Fermi's signal",
        "A Tesla C2050 (Fermi) has two copy engines. But if kernels stand one behind the other in its queue, each of"
        " them signals its end only after the last. Breadth-first, no copy back begins before. Choose depth-first.",
        {**OF_A_CARD, **FERMI},
    ),
    Lesson(
        "A kernel that is too short",
        "The copy in takes nearly all of the time, and there is next to nothing to hide behind it. Chunks only add"
        " calls and latencies. Drag the time of the kernel up until streams pay.",
        {**OF_A_CARD, "--kernel": "20us", "--d2h": "64KB", "--chunks": "8"},
    ),
    Lesson(
        "Pageable memory",
        "Memory of malloc or NumPy is pageable. The driver copies it to a buffer of its own first and holds the host"
        " meanwhile: streams cannot help. Choose pinned.",
        {**OF_A_CARD, "--kernel": "500us", "--chunks": "16", "--memory": "pageable"},
    ),
)


class Played(msgspec.Struct, frozen=True):
    """The meaning of a choice: a workload and its configuration, a device, and the command that predicts them."""

    source: Source
    device: Device
    command: str


def played(choice: dict[str, str]) -> Played:
    """Return the meaning of ``choice``. Raises InputError naming the value that is wrong."""
    given = {name: text for name, text in choice.items() if text}
    chunks = parse_number(given.get("--chunks", ""), "--chunks")
    order, memory = cast("Order", given["--order"]), cast("HostMemory", given["--memory"])  # Config checks both
    if useful_streams(order, chunks) == 1:  # the order has streams of its own, or only one is of use
        given.pop("--streams", None)
    sizes, kernels, back = ([given[name]] if name in given else [] for name in ("--h2d", "--kernel", "--d2h"))
    workload = workload_of_sizes(sizes, kernels, back)
    streams = parse_number(given.get("--streams", "1"), "--streams")
    config = Config(order=order, chunks=chunks, streams=streams, memory=memory)
    settings = [f"{name}={text}" for name, text in given.items() if not name.startswith("--")]
    device = load_device(given["--device"])
    device = changed(device, parse_settings(settings))
    words = [word for name, text in given.items() if name.startswith("--") for word in (name, text)]
    command = ["streamsim", "predict", *words, *(word for one in settings for word in ("--set", one))]
    return Played(Source(workload, config), device, shlex.join(command))


def prediction_of(play: Played) -> Prediction:
    """Return the prediction of the command of ``play``."""
    source = play.source
    bound = work_bound(source.workload, play.device, source.config.memory, source.config.launch)
    return predict(source.config.schedule(source.workload), play.device).beside(bound)


def shown(choice: dict[str, str]) -> dict[str, Any]:
    """Return the first answer to a choice: figures and a table as HTML, time lines as data, the command.

    The program that was cut is one thin row below. ``places``: of the sliders.
    """
    play = played(choice)
    prediction = prediction_of(play)
    table = prediction_answer(prediction).facts
    return {
        "headline": headline_html(table.groups[0]),
        "lines": [line_data(line) | {"thin": number > 0} for number, line in enumerate(reversed(lines_of(prediction)))],
        "table": table.html(),
        "command": play.command,
        "places": {control.name: control.place_of(choice[control.name]) for control in CONTROLS if control.parse},
    }


def reason(choice: dict[str, str]) -> dict[str, Any]:
    """Return the second answer to a choice: what to change first, and the losses as HTML."""
    play = played(choice)
    source = play.source
    found = explain(source.config.schedule(source.workload), play.device, source)
    return {"advice": f"first: {found.advice}", "losses": losses_html(losses_of(found))}


ANSWERS: dict[str, Callable[[dict[str, str]], dict[str, Any]]] = {"shown": shown, "reason": reason}


def answer(asked: str, choice: str) -> str:
    """Return an answer to a choice, both in JSON. ``asked``: a key of ``ANSWERS``.

    The answer to a choice that is wrong is its ``error``, a sentence.
    """
    try:
        said = ANSWERS[asked](msgspec.json.decode(choice, type=dict[str, str]))
    except InputError as error:
        said = {"error": str(error)}
    return msgspec.json.encode(said).decode()
