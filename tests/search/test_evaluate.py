"""Which of the two models says how long configurations take."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from strategies import make_device, pipeline_of

from streamsim import compiled
from streamsim.program import Config
from streamsim.search import evaluate, is_fast


@pytest.mark.skipif(not is_fast(), reason="needs numba")
@pytest.mark.parametrize(
    ("fast", "is_there", "asked"),
    [(True, True, "compiled"), (False, True, "SimPy"), (None, True, "compiled"), (None, False, "SimPy")],
)
def test_the_model_is_the_one_that_was_asked_for_or_the_fast_one_where_it_is(
    fast: bool | None, is_there: bool, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = []

    def noting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any, **more: Any) -> Any:
            called.append(name)
            return function(*arguments, **more)

        return noted

    evaluating = import_module("streamsim.search.evaluate")  # the door's function has the same name
    monkeypatch.setattr(evaluating, "is_fast", lambda: is_there)
    monkeypatch.setattr(compiled, "makespans", noting("compiled", compiled.makespans))
    monkeypatch.setattr(evaluating, "simulate", noting("SimPy", evaluating.simulate))
    evaluate(pipeline_of(64), [Config(chunks=4, streams=2)], make_device(), fast)
    assert called == [asked]
