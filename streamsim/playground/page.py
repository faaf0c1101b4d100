"""The playground: a page with controls to drag, in which the model runs and answers."""

from streamsim.answer import lines_of
from streamsim.page import WITH_PYTHON, deflated, document_of, lines_html, viewer_text
from streamsim.playground.played import CONTROLS, LESSONS, Control, Lesson, played, prediction_of, shown
from streamsim.playground.pyodide import BrowserPython
from streamsim.report import in_html

TITLE = "Streams: drag, and see"
STARTING = "Python is starting in this page; the picture shows the first lesson."
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
    body = (
        "<noscript><p>The playground needs JavaScript.</p></noscript>",
        f"<div class='playground'><details class='controls' open><summary>Controls</summary><h1>{TITLE}</h1>",
        _lessons(LESSONS),
        *map(_control, CONTROLS),
        "<p><button data-copy='link'>Copy the link</button> <button data-copy='command'>Copy the command</button></p>",
        f"<p class='state soft' aria-live='polite'>{STARTING}</p></details><div>",
        f"<div data-part='headline'>{answer['headline']}</div><p data-part='advice'></p>",
        lines_html(tuple(reversed(lines_of(prediction_of(played(first)))))),
        "<div data-part='losses'></div>",
        f"<section class='scroll' tabindex='0' data-part='table'>{answer['table']}</section>",
        "<section><h2>The command that predicts the same</h2>",
        f"<pre data-part='command'>{in_html(answer['command'])}</pre></section></div></div>",
    )
    return document_of(TITLE, body, data, ("playground.js",), WITH_PYTHON)


def _lessons(lessons: tuple[Lesson, ...]) -> str:
    buttons = "".join(
        f"<button data-lesson='{k}' aria-pressed='{'false' if k else 'true'}'>{in_html(lesson.name)}</button>"
        for k, lesson in enumerate(lessons)
    )
    words = f"<p class='lesson' aria-live='polite'>{in_html(lessons[0].words)}</p>"
    return f"<div class='tools' role='group' aria-label='Lessons'>{buttons}</div>{words}"


def _control(control: Control) -> str:
    value, name = LESSONS[0].choice[control.name], in_html(control.name)
    if control.parse is None:
        options = "".join(
            f"<option value='{in_html(one)}'{' selected' if one == value else ''}>{in_html(one or OF_PROFILE)}</option>"
            for one in control.values
        )
        return f"<label>{in_html(control.words)} <select data-control='{name}'>{options}</select></label>"
    words = in_html(control.words)
    text = f"<input type='text' data-control='{name}' value='{in_html(value)}' placeholder=\"{OF_PROFILE}\">"
    last, at = len(control.values) - 1, control.place_of(value)
    slider = f"<input type='range' name='{name}' min='0' max='{last}' value='{at}' aria-label='{words}'>"
    return f"<label>{words} {text}</label>{slider}"
