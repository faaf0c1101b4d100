"""The playground: a page with controls to drag, in which the model runs and answers."""

from streamsim.answer import lines_of
from streamsim.page import (
    WITH_PYTHON,
    buttons_html,
    choice_html,
    deflated,
    document_of,
    filled,
    lines_html,
    viewer_text,
)
from streamsim.playground.played import CONTROLS, LESSONS, Control, played, prediction_of, shown
from streamsim.playground.pyodide import BrowserPython
from streamsim.report import in_html

TITLE = "Streams: drag, and see"
OF_PROFILE = "the device's own"  # shown in place of an empty text
WORKER = ("numbers.js", "worker.js")


def playground_html(python: BrowserPython) -> str:
    """Return the playground as one HTML document, which shows the first lesson until Python has started."""
    first = LESSONS[0].choice
    answer = shown(first)
    worker = f"{viewer_text(WORKER)}\n{python.script}"
    data = {
        "lines": answer["lines"],
        "map": None,
        "values": {control.name: control.values for control in CONTROLS},
        "lessons": LESSONS,
        "worker": deflated(worker.encode()),
        "files": {name: deflated(content) for name, content in python.files.items()},
    }
    body = filled(
        viewer_text(("playground.html",)),
        title=TITLE,
        lessons=buttons_html("lesson", dict(enumerate(lesson.name for lesson in LESSONS)), "Lessons"),
        words=in_html(LESSONS[0].words),
        controls="\n".join(map(_control, CONTROLS)),
        lines=lines_html(lines_of(prediction_of(played(first)))),
        **{name: answer[name] for name in ("headline", "table")},
        command=in_html(answer["command"]),
    )
    return document_of(TITLE, [body], data, ("playground.js",), WITH_PYTHON)


def _control(control: Control) -> str:
    value, name = LESSONS[0].choice[control.name], in_html(control.name)
    if control.parse is None:
        return choice_html(f"data-control='{name}'", control.words, control.values, value, OF_PROFILE)
    words = in_html(control.words)
    text = f"<input type='text' data-control='{name}' value='{in_html(value)}' placeholder=\"{OF_PROFILE}\">"
    last, at = len(control.values) - 1, control.place_of(value)
    slider = f"<input type='range' name='{name}' min='0' max='{last}' value='{at}' aria-label='{words}'>"
    return f"<label>{words} {text}</label>{slider}"
