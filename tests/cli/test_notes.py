"""What long commands say on stderr."""

import io

import pytest

from streamsim.cli import notes
from streamsim.cli.notes import SECONDS_A_REFRESH, steps


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_a_terminal_each_thing_is_said_once() -> None:
    stream = io.StringIO()
    with steps(stream) as tell:
        for done in range(3):
            tell("calibrating", done, 3)
        for done in range(3):
            tell("measuring", done, 3)
    assert stream.getvalue() == "calibrating\nmeasuring\n"


def test_on_a_terminal_a_bar_is_drawn_no_oftener_than_twice_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or drawing would take the time that is being measured; a new thing is shown at once."""
    now = 100.0
    monkeypatch.setattr(notes, "monotonic", lambda: now)
    stream = Terminal()
    written: list[bool] = []

    def tell_and_look(what: str, done: int) -> None:
        before = stream.tell()
        tell(what, done, 10)
        written.append(stream.tell() > before)

    with steps(stream) as tell:
        for done in range(3):
            tell_and_look("calibrating", done)
        now += SECONDS_A_REFRESH
        tell_and_look("calibrating", 3)
        tell_and_look("measuring", 0)
        tell_and_look("measuring", 1)
    assert written == [True, False, False, True, True, False]
    assert "3/10" in stream.getvalue()
    assert "measuring" in stream.getvalue()
