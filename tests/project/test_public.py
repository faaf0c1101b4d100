"""The public interface: what it takes and returns is public, a device's name does everywhere, values show in a line."""

from __future__ import annotations

import inspect
import re
import sys
from array import array
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, get_args, get_origin

import pytest
from matplotlib.axes import Axes
from perfect_profiler import profiled

import streamsim
from streamsim import (
    Config,
    Grid,
    InputError,
    Layer,
    Layers,
    Loop,
    best,
    depth_first,
    diagnose,
    explain,
    load_device,
    loop_advice,
    predict,
    simulate,
    sweep,
    what_if,
    workload_of_sizes,
)
from streamsim.analysis import interval, lower_bound, timed_alone, work_bound
from streamsim.device import changed, link_words
from streamsim.recorded import profile_of, program_of, replay, without_recording
from streamsim.report import plot_gantt
from streamsim.search import best_offload, best_program, evaluate
from streamsim.transform import changes as make

PUBLIC = {name: getattr(streamsim, name) for name in streamsim.__all__ if name != "__version__"}
WORKLOAD = workload_of_sizes(h2d=["1MiB"], kernels=["10us"], d2h=["1MiB"])
SCHEDULE = depth_first(WORKLOAD, 4, 2)
TIMED_WITH_EVENTS = workload_of_sizes(kernels=["15us,timed=events"])
SMALL = Grid((1, 2), (1, 2))
LAYERS = Layers((Layer(1 << 18, WORKLOAD.kernels, repeats=6),))
LONGEST = 200
DOCS = Path(__file__).parents[2] / "docs"


# What is public


@cache
def names_of(module: ModuleType) -> dict[str, Any]:
    """What a module knows, with the class of matplotlib that is imported when a picture is drawn."""
    known = {"Axes": Axes, **vars(module)}
    if known.get("array") is array:
        known["array"] = list  # array[int] is only for type checkers before Python 3.12
    return known


def hints_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Every annotation of a function, or of the fields, properties and methods of a class that anyone may use."""
    known = dict(names_of(sys.modules[value.__module__]))
    if not inspect.isclass(value):
        yield from inspect.get_annotations(value, globals=known, eval_str=True).items()
        return
    for base in value.__mro__:
        if base.__module__.startswith("streamsim"):
            known |= names_of(sys.modules[base.__module__])
            found = {name: text for name, text in base.__annotations__.items() if not name.startswith("_")}
            yield from ((name, eval(text, known) if isinstance(text, str) else text) for name, text in found.items())
    for name, member in vars(value).items():
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if inspect.isfunction(function) and (not name.startswith("_") or name in ("__iter__", "__getitem__")):
            for argument, hint in inspect.get_annotations(function, globals=known, eval_str=True).items():
                yield f"{name}: {argument}", hint


def classes_in(hint: Any) -> Iterator[type]:
    """The package's own classes that an annotation names, however deep."""
    if isinstance(hint, TypeVar | str) or hint is None:
        return
    one = get_origin(hint) or hint  # of Best[Config] the class Best
    if inspect.isclass(one) and one.__module__.startswith("streamsim"):
        yield one
    for part in get_args(hint):
        for one in part if isinstance(part, list) else [part]:
            yield from classes_in(one)


def classes_reached() -> set[type]:
    """The classes that a user may meet: those that public names take or give, and those of their own fields."""
    reached: set[type] = set()
    asked = [value for value in PUBLIC.values() if callable(value)]
    while asked:
        found = {one for _, hint in hints_of(asked.pop()) for one in classes_in(hint)} - reached
        reached |= found
        asked += found
    return reached


def test_whatever_is_taken_or_returned_is_in_the_reference() -> None:
    """The names of ``streamsim`` are all there; a class that stands in a room alone has an entry of its own."""
    named = set(re.findall(r"autoclass:: (.*)", (DOCS / "reference" / "library.rst").read_text()))
    met = {f"{one.__module__}.{one.__qualname__}" for one in classes_reached() - set(PUBLIC.values())}
    assert met == named


# A device by its name

DOORS: dict[str, Callable[[Any], object]] = {
    "simulate": lambda device: simulate(SCHEDULE, device).makespan_s,
    "predict": lambda device: predict(SCHEDULE, device).to_json(),
    "explain": lambda device: explain(SCHEDULE, device).to_json(),
    "best": lambda device: best(WORKLOAD, device, SMALL, fast=False).to_json(),
    "best_offload": lambda device: best_offload(LAYERS, device, 1 << 20).to_json(),
    "sweep": lambda device: list(sweep(WORKLOAD, device, chunks="1..3")),
    "evaluate": lambda device: evaluate(WORKLOAD, [Config(chunks=2)], device, fast=False),
    "interval": lambda device: interval(SCHEDULE, device, samples=20),
    "lower_bound": lambda device: lower_bound(SCHEDULE, device),
    "work_bound": lambda device: work_bound(WORKLOAD, device),
    "timed_alone": lambda device: timed_alone(TIMED_WITH_EVENTS, device),
    "changed": lambda device: changed(device, {"h2d.latency_s": 1e-6}),
    "link_words": link_words,
    "what_if": lambda device: what_if(SCHEDULE, device, [make.GRAPH]).to_json(),
    "diagnose": lambda device: diagnose(WORKLOAD, device, 1e-3).to_json(),
    "loop_advice": lambda device: loop_advice(Loop(batch=2, batch_bytes=1 << 20, step_s=1e-3), device).to_json(),
    "best_program": lambda device: best_program(depth_first(WORKLOAD, 3, 1), device).to_json(),
    "replay": lambda device: replay(profiled(simulate(SCHEDULE, "ideal")), device).predicted_s,
    "program_of": lambda device: program_of(profiled(simulate(SCHEDULE, "ideal")), device=device).schedule,
    "without_recording": lambda device: without_recording(profiled(simulate(SCHEDULE, "ideal")), device).predicted_s,
    "profile_of": lambda device: profile_of(profiled(simulate(SCHEDULE, "ideal")), device),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_name_does_wherever_a_device_does(door: str) -> None:
    assert DOORS[door]("h200") == DOORS[door](load_device("h200"))
    with pytest.raises(InputError, match=r"device = 'h20o': neither a shipped profile .*; did you mean 'h200'\?"):
        DOORS[door]("h20o")


def test_a_device_is_named_by_its_name_or_the_path_of_its_file_and_nothing_else() -> None:
    path = Path(streamsim.__file__).parent / "device" / "profiles" / "h200.toml"
    expected = predict(SCHEDULE, load_device("h200")).makespan_s
    assert {predict(SCHEDULE, device).makespan_s for device in ("h200", "H200", str(path), path)} == {expected}
    for wrong in (None, 7, b"h200"):
        with pytest.raises(InputError, match="expected a Device, the name of one or the path of its file"):
            predict(SCHEDULE, wrong)  # type: ignore[arg-type]


def test_every_function_of_a_device_takes_its_name() -> None:
    takes = {name for name, value in PUBLIC.items() if "device" in getattr(value, "__annotations__", {})}
    assert {name for name in takes if not inspect.isclass(PUBLIC[name])} <= set(DOORS)


# In a line


def test_values_show_in_a_line() -> None:
    values = [SCHEDULE, WORKLOAD, LAYERS, Grid(), lower_bound(SCHEDULE, "h200"), explain(SCHEDULE, "h200").losses[0]]
    values += [best_offload(LAYERS, "h200", 1 << 20), sweep(WORKLOAD, chunks="1..3")]
    for value in (*values, *map(load_device, streamsim.device_names())):
        assert len(repr(value)) < LONGEST
        assert "\n" not in repr(value)
        assert repr(value).startswith(f"{type(value).__name__}(")


# Pictures


def test_pictures_are_drawn_into_the_axes_that_are_given() -> None:
    from matplotlib.figure import Figure

    timeline, ax = simulate(SCHEDULE, "h200"), Figure().add_subplot()
    assert plot_gantt(timeline, ax=ax) is ax
    assert plot_gantt(timeline).figure.figure is not None
    assert "matplotlib.pyplot" not in sys.modules  # so that no window can open
