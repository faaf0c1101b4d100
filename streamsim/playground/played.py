"""The playground's page: its controls and lessons, and the model's answers to a choice.

The same functions answer on this machine and in the browser, where Pyodide runs them. A choice has a text for each
control: the value of an option of ``streamsim predict``, or of a setting of the profile. An empty text leaves the
profile's own value.
"""

import shlex
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import msgspec

from streamsim import page
from streamsim.advice import explain
from streamsim.analysis import Prediction, predict, work_bound
from streamsim.answer import lines_of, prediction_answer
from streamsim.device import changed, device_names, load_device, parse_settings
from streamsim.errors import InputError
from streamsim.playground.pyodide import BrowserPython
from streamsim.program import HOST_MEMORIES, ORDERS, Config, HostMemory, Order, useful_streams, workload_of_sizes
from streamsim.report import in_html, losses_of
from streamsim.text import parse_bandwidth, parse_bytes, parse_count, parse_seconds
from streamsim.transform import Source, Work

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
            least, *known = [self.parse(one) if one else -1.0 for one in (text, *self.values)]  # empty ones come first
            return min(sum(value < least for value in known), len(known) - 1)
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
    Control("--chunks", "chunks", "4", COUNTS, parse_count),
    Control("--streams", "streams", "4", COUNTS, parse_count),
    Control("link.bandwidth", "link", "64GB/s", RATES, parse_bandwidth),
    Control("--order", "order", "depth-first", ORDERS),
    Control("--memory", "host memory", "pinned", HOST_MEMORIES),
    Control("copy_engines.count", "copy engines", "", ("", "1", "2")),
    Control("--device", "device", "ideal", tuple(device_names())),
)
EQUAL = {control.name: control.usual for control in CONTROLS}
OF_A_CARD = {**EQUAL, "link.bandwidth": "", "--device": "h200"}
README = {"--h2d": "64MiB", "--kernel": "0.57ms", "--d2h": "64MiB", "--chunks": "16"}
LESSONS = (
    Lesson(
        "Sixteen chunks",
        "64 MiB go to an H200, a kernel works on them for 0.57 ms, and 64 MiB come back. In 16 chunks over 4 streams,"
        " that takes about half the time. Drag the chunks: few overlap little, and many cost calls and latencies.",
        {**OF_A_CARD, **README},
    ),
    Lesson(
        "One copy engine",
        "One engine copies in both directions, in the order of issue. Depth-first, the copy back of chunk 1 stands"
        " before the copy in of chunk 2 and must wait for the kernel: nothing overlaps. Choose breadth-first.",
        {**EQUAL, "copy_engines.count": "1"},
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


def played(choice: dict[str, str]) -> tuple[Work, str]:
    """Return the program of ``choice``, and the command that predicts it.

    Raises InputError naming the value that is wrong.
    """
    given = {name: text for name, text in choice.items() if text}
    chunks = parse_count(given.get("--chunks", ""), "--chunks")
    order, memory = cast("Order", given["--order"]), cast("HostMemory", given["--memory"])  # Config checks both
    if useful_streams(order, chunks) == 1:  # the order has streams of its own, or only one is of use
        given.pop("--streams", None)
    sizes, kernels, back = ([given[name]] if name in given else [] for name in ("--h2d", "--kernel", "--d2h"))
    workload = workload_of_sizes(sizes, kernels, back)
    streams = parse_count(given.get("--streams", "1"), "--streams")
    config = Config(order=order, chunks=chunks, streams=streams, memory=memory)
    settings = [f"{name}={text}" for name, text in given.items() if not name.startswith("--")]
    device = changed(load_device(given["--device"]), parse_settings(settings))
    words = [word for name, text in given.items() if name.startswith("--") for word in (name, text)]
    words += [word for one in settings for word in ("--set", one)]
    work = Work(config.schedule(workload), device, Source(workload, config))
    return work, shlex.join(["streamsim", "predict", *words])


def prediction_of(work: Work) -> Prediction:
    """Return the prediction of the command of :func:`played`."""
    source = work.pipeline
    assert source is not None
    bound = work_bound(source.workload, work.device, source.config.memory, source.config.launch)
    return predict(work.schedule, work.device, bound)


def shown(choice: dict[str, str]) -> dict[str, Any]:
    """Return the first answer to a choice: figures and a table as HTML, time lines as data, the command.

    The program that was cut is one thin row below. ``places``: of the sliders.
    """
    work, command = played(choice)
    prediction = prediction_of(work)
    table = prediction_answer(prediction).facts
    return {
        "headline": page.headline_html(table.groups[0]),
        "lines": [
            page.line_data(line) | {"thin": number > 0} for number, line in enumerate(reversed(lines_of(prediction)))
        ],
        "table": table.html(),
        "command": command,
        "places": {control.name: control.place_of(choice[control.name]) for control in CONTROLS if control.parse},
    }


def reason(choice: dict[str, str]) -> dict[str, Any]:
    """Return the second answer to a choice: what to change first, and the losses as HTML."""
    work, _ = played(choice)
    found = explain(*work[:3])
    return {"advice": f"first: {found.advice}", "losses": page.losses_html(losses_of(found))}


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


# The page

TITLE = "Streams: drag, and see"
OF_PROFILE = "the device's own"  # shown in place of an empty text
WORKER = ("numbers.js", "worker.js")


def playground_html(python: BrowserPython) -> str:
    """Return the playground as one HTML document, which shows the first lesson until Python has started."""
    first = LESSONS[0].choice
    answer = shown(first)
    worker = f"{page.viewer_text(WORKER)}\n{python.script}"
    data = {
        "lines": answer["lines"],
        "map": None,
        "values": {control.name: control.values for control in CONTROLS},
        "lessons": LESSONS,
        "worker": page.deflated(worker.encode()),
        "files": {name: page.deflated(content) for name, content in python.files.items()},
    }
    body = page.filled(
        page.viewer_text(("playground.html",)),
        title=TITLE,
        lessons=page.buttons_html("lesson", dict(enumerate(lesson.name for lesson in LESSONS)), "Lessons"),
        words=in_html(LESSONS[0].words),
        controls="\n".join(map(_control, CONTROLS)),
        lines=page.lines_html(lines_of(prediction_of(played(first)[0]))),
        **{name: answer[name] for name in ("headline", "table")},
        command=in_html(answer["command"]),
    )
    return page.document_of(TITLE, [body], data, ("playground.js",), page.WITH_PYTHON)


def _control(control: Control) -> str:
    value, name = LESSONS[0].choice[control.name], in_html(control.name)
    if control.parse is None:
        return page.choice_html(f"data-control='{name}'", control.words, control.values, value, OF_PROFILE)
    words = in_html(control.words)
    text = f"<input type='text' data-control='{name}' value='{in_html(value)}' placeholder=\"{OF_PROFILE}\">"
    last, at = len(control.values) - 1, control.place_of(value)
    slider = f"<input type='range' name='{name}' min='0' max='{last}' value='{at}' aria-label='{words}'>"
    return f"<label>{words} {text}</label>{slider}"
