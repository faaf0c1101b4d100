"""Programs of streamed layers make the calls of their schedule, verify their output, and read as people write them."""

from pathlib import Path
from typing import Any

import code_calls
import pytest
from effort import examples
from fake_gpu.arrays import Time, fake_torch_with_layers
from fake_gpu.card import Card
from hypothesis import given
from hypothesis import strategies as st

from streamsim.code import VERIFIED, code_of_layers
from streamsim.program import DIRECTIONS, Layer, Layers, Offload, PassDirection, WorkloadKernel

REPEAT = 2


def layers_of_floats(
    *floats: int, launches: tuple[int, ...] = (), passes: int = 1, direction: PassDirection = "forward"
) -> Layers:
    """Layers of so many floats; backward they have twice as many launches, as they are computed again."""
    several = launches or (1,) * len(floats)
    kernels = [[(WorkloadKernel(duration_s=1e-6, launches=many * k),) for k in (1, 2)] for many in several]
    layers = [Layer(4 * n, run, backward=back) for n, (run, back) in zip(floats, kernels, strict=True)]
    return Layers(tuple(layers), passes, direction=direction)


def run(text: str, seed: int = 0) -> tuple[dict[str, Any], list[code_calls.Call], list[str]]:
    """What ``measure`` gives on an emulated card, its calls there, and where on the host each copy came from."""
    card = Card(seed)
    result = code_calls.measured(text, fake_torch_with_layers(card), {"repeat": REPEAT, "rows": 3}, time=Time(card))
    return result, card.log, card.places


def runs_of(log: list[code_calls.Call]) -> list[list[code_calls.Call]]:
    """The calls of each run, until the clock is read a second time; it is a third time behind a synchronisation."""
    clocks = [k for k, call in enumerate(log) if call == code_calls.CLOCK]
    begun, issued, done = clocks[::3], clocks[1::3], clocks[2::3]
    assert all(log[a + 1 : b] == [code_calls.SYNCHRONISE] for a, b in zip(issued, done, strict=True))
    return [log[a + 1 : b] for a, b in zip(begun, issued, strict=True)]


@st.composite
def programs(draw: st.DrawFn) -> tuple[Layers, Offload]:
    """Up to five layers of 4 to 60 floats, any of which may stay."""
    floats = draw(st.lists(st.integers(4, 60), min_size=1, max_size=5))
    launches = draw(st.lists(st.integers(1, 3), min_size=len(floats), max_size=len(floats)))
    stay = draw(st.sets(st.sampled_from(range(len(floats)))))
    passes, direction = draw(st.integers(1, 3)), draw(st.sampled_from(list(DIRECTIONS)))
    layers = layers_of_floats(*floats, launches=tuple(launches), passes=passes, direction=direction)
    memory: Any = draw(st.sampled_from(("pinned", "pinned", "pageable")))
    names = tuple(f"layer{n}" for n in sorted(stay))
    return layers, Offload(draw(st.integers(1, 6)), names, memory)


@examples(100)
@given(programs(), st.integers(0, 9))
def test_a_program_makes_the_calls_of_its_schedule_and_verifies_its_output(
    asked: tuple[Layers, Offload], seed: int
) -> None:
    # Bytes, offsets, streams and events of each call, op for op; and with no wait missing the output is right in
    # whatever order the card runs what it may. Before that the same calls are made in one stream.
    layers, config = asked
    result, log, places = run(code_of_layers(layers, config), seed)
    schedule = config.schedule(layers)
    wanted = code_calls.with_events_named(code_calls.calls_of(schedule))
    serial, *rest = runs_of(log)
    assert {call[-1] for call in serial if call[0] in ("h2d", "kernel")} == {1}
    assert [call[:-1] for call in code_calls.with_events_named(serial)] == [call[:-1] for call in wanted]
    assert len(rest) == VERIFIED + 1 + REPEAT
    assert all(code_calls.with_events_named(calls) == wanted for calls in rest)
    assert result["verified"]
    for name in ("layer_s", *(["backward_s"] if layers.is_backward else [])):
        assert result[name] == [0.001 / REPEAT] * len(layers.steps)
    assert set(places) <= {config.memory}


@pytest.mark.parametrize(
    ("line", "without"),
    [
        ("compute.wait_event(loaded[i % depth])", "a layer's wait for its copy"),
        ("load.wait_event(ran[i % depth])", "a copy's wait for its buffer"),
    ],
)
def test_a_missing_wait_is_found(line: str, without: str) -> None:
    layers = layers_of_floats(16, 16, 16, 16)
    text = code_of_layers(layers, Offload(2))
    assert text.count(line) == 1, without
    found = {run(text.replace(line, "pass"), seed)[0]["verified"] for seed in range(12)}
    assert False in found
    assert {run(text, seed)[0]["verified"] for seed in range(12)} == {True}


def texts() -> list[str]:
    """Programs of few and many layers, alike and not, with some, all and none that stay."""
    found: list[str] = []
    for many in (1, 2, 9):
        layers = layers_of_floats(*(10_000_000 + 7919 * n for n in range(many)), launches=(2,) * many)
        stay = (tuple(f"layer{n}" for n in numbers) for numbers in (range(0), range(0, many, 2), range(many)))
        found += [code_of_layers(layers, Offload(2, names)) for names in stay]
    found += [code_of_layers(layers_of_floats(16, 18, 20, direction=way), Offload(2)) for way in DIRECTIONS]
    alike = Layers((Layer(400, (WorkloadKernel(duration_s=1e-3),), "block", 90),), 12)
    return [*found, *(code_of_layers(alike, Offload(10, ("block.3",), memory)) for memory in ("pinned", "pageable"))]


def test_programs_are_formatted_and_linted(tmp_path: Path) -> None:
    code_calls.assert_formatted_and_linted(texts(), tmp_path)
