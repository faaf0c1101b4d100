"""Tables in files and pipes: whole lines without blanks at their ends, and Markdown."""

import pytest
from pages import CUT, SIZES
from stamped import printed

from streamsim.report import Table

COMMANDS = (
    ("predict", *CUT),
    ("explain", *CUT),
    ("best", *SIZES, "--max-chunks", "4", "--max-streams", "2"),
    ("devices",),
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_pipe_gets_whole_lines_without_blanks_at_their_ends(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    whole = printed(capsys, *command)
    assert [line for line in whole.splitlines() if line != line.rstrip()] == []
    monkeypatch.setenv("COLUMNS", "60")
    narrow = printed(capsys, *command)
    assert max(map(len, whole.splitlines())) > 60
    assert len(narrow.splitlines()) > len(whole.splitlines())


def test_a_cell_is_no_markup() -> None:
    table = Table("a|b", ((("x_y*", "<b>\nc"),),), ("[one]", "two"), frozenset({1}))
    assert table.markdown().splitlines() == [
        r"**a\|b**",
        "",
        r"| \[one\] | two |",
        "| --- | ---: |",
        r"| x\_y\* | \<b\> c |",
    ]
