"""An argument of a wrong type is one line that names it; whatever else goes wrong is not blamed on an argument."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import isfunction, signature
from pathlib import Path
from typing import Any, Literal

import pytest

import streamsim
from streamsim import Config, Grid, InputError, Layer, Layers, WorkloadKernel
from streamsim.arguments import checked, fits
from streamsim.transform.changes import pin

WORKLOAD = streamsim.workload_of_sizes(h2d=["1MiB"], kernels=["1ms"], d2h=["1MiB"])
SCHEDULE = streamsim.depth_first(WORKLOAD, chunks=2, streams=2)
TIMELINE = streamsim.simulate(SCHEDULE, "h200")
FUNCTIONS = [name for name in streamsim._HOME if isfunction(getattr(streamsim, name))]
GOOD: dict[str, Any] = {
    "workload": WORKLOAD,
    "schedule": SCHEDULE,
    "timeline": TIMELINE,
    "device": streamsim.load_device("h200"),
    "chunks": 2,
    "streams": 2,
    "config": Config(),
    "configs": [Config()],
    "grid": Grid(chunks=(1, 2), streams=(1,)),
    "layers": Layers((Layer(1 << 20, (WorkloadKernel("k", duration_s=1e-3),)),)),
    "changes": [pin()],
    "findings": [],
    "language": "cupy",
    "path": "picture.svg",
}


class Odd:
    """Of no type that anything takes."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_argument_of_a_wrong_type_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each argument in turn is an object, the others are good or, where the test has none, left to be named instead."""
    monkeypatch.chdir(tmp_path)
    function, odd = getattr(streamsim, name), Odd()
    parameters = [p for p in signature(function).parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    good = {**GOOD, "path": "rows.csv"} if name == "write_sweep" else GOOD
    needed = {p.name: good.get(p.name, odd) for p in parameters if p.default is p.empty}
    for parameter in parameters:
        wrong = {argument for argument, value in needed.items() if value is odd} | {parameter.name}
        try:
            function(**{**needed, parameter.name: odd})
        except InputError as error:
            said = str(error)
            assert said.isprintable()
            assert any(argument in said for argument in wrong) or "Odd" in said, said
        except (TypeError, AttributeError):  # of Matplotlib's types and of functions nothing is known here
            assert parameter.name in ("ax", "progress"), parameter


def test_what_is_expected_is_said_as_the_signature_says_it() -> None:
    with pytest.raises(InputError, match=r"^workload = 'w.toml': expected Workload$"):
        streamsim.depth_first("w.toml", chunks=2, streams=2)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^configs = \[3\]: expected Sequence\[Config\]$"):
        streamsim.evaluate(WORKLOAD, [3], "h200")  # type: ignore[list-item]


def test_python_says_itself_which_arguments_are_missing_or_too_many() -> None:
    with pytest.raises(TypeError, match="missing"):
        streamsim.predict()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected"):
        streamsim.predict(SCHEDULE, "h200", colour="red")  # type: ignore[call-arg]


def fails(number: int) -> None:
    raise ZeroDivisionError(number)


def test_a_fault_of_ours_stays_what_it_is() -> None:
    unchecked = fails
    call = checked(fails)
    try:
        with pytest.raises(ZeroDivisionError):
            call(1)
        with pytest.raises(InputError, match=r"^number = 'one': expected int$"):
            call("one")
    finally:
        globals()["fails"] = unchecked


@pytest.mark.parametrize("name", FUNCTIONS)
def test_public_functions_can_be_sent_to_another_process(name: str) -> None:
    function = getattr(streamsim, name)
    assert pickle.loads(pickle.dumps(function)) is function


@pytest.mark.parametrize(
    ("value", "kind", "does"),
    [
        (1, int, True),
        (1.0, int, False),
        (1, float, True),
        ("1", float, False),
        (None, int | None, True),
        ("x", int | None, False),
        ("a", Literal["a", "b"], True),
        ("c", Literal["a", "b"], False),
        ([1, 2], Sequence[int], True),
        ([1, "x"], Sequence[int], False),
        ("12", Sequence[str], False),
        ((1, 2), tuple[int, ...], True),
        ({"a": 1}, Mapping[str, int], True),
        ({"a": "x"}, Mapping[str, int], False),
        ({"a": 1}, Iterable[int], False),
        (print, Callable[[str], None], True),
        (3, Callable[[str], None], False),
        (3, Any, True),
    ],
)
def test_what_fits_an_annotation(value: object, kind: Any, does: bool) -> None:
    assert fits(value, kind) is does
