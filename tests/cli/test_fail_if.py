"""``--fail-if``: exit code 1 if a number is beyond a limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsim.cli import main
from streamsim.cli.printing import judged, parse_condition
from streamsim.errors import FOUND, OK, InputError

# One copy of 64 MB there takes 1 ms on the ideal device, and so does one back.
PIPELINE = ("predict", "--h2d", "64MB", "--d2h", "64MB", "--device", "ideal")


@pytest.mark.parametrize(
    ("condition", "code", "said"),
    [
        ("makespan > 1.9ms", 1, "failed: makespan > 1.9ms: is 2 ms"),
        ("makespan > 2ms", 0, ""),
        ("makespan_s<2.1ms", 1, "is 2 ms"),
        ("speedup < 1.5", 1, "failed: speedup < 1.5: is 1"),
        ("engines.h2d.utilisation < 51%", 1, "is 50.00%"),
        ("device_bytes > 100MB", 1, "is 122.1 MiB"),
        ("speedupp > 1", 2, "'speedupp' names no number; there is speedup"),
        ("speedup = 1", 2, "expected the name of a number, < or >"),
    ],
)
def test_the_exit_code_says_whether_a_condition_holds(
    condition: str, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*PIPELINE, "--fail-if", "speedup > 9", "--fail-if", condition]) == code
    err = capsys.readouterr().err
    assert said in err
    assert len(err.splitlines()) == (code != 0)


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_one_side_of_a_limit_fails(value: float, limit: float) -> None:
    for sign, is_beyond in (("<", value < round(limit, 3)), (">", value > round(limit, 3))):
        assert judged([parse_condition(f"x {sign} {limit:.3f}")], {"x": value}) == (FOUND if is_beyond else OK)


@given(st.text(max_size=20))
def test_any_text_is_a_condition_or_one_clear_line(text: str) -> None:
    complaint = ""
    try:
        parse_condition(text)
    except InputError as error:
        complaint = str(error)
    assert "\n" not in complaint
