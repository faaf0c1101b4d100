"""What profilers take of the host's time: measured in turn, fitted, kept with the samples and in the profile."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import msgspec
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from strategies import make_device

from streamsim.device import Recorder, dump_device, mean_of, parse_device, recorder_of
from streamsim_validate.calibrate.front_ends import RECORDINGS, fit_recorder, measure_recorders


class Clocked:
    """A library whose calls take so long, and so many times as long while they are recorded; one clock for all."""

    name, version = "pytorch", "a library that is not there"

    def __init__(self, took_s: dict[str, float], ratios: dict[str, float], host: Callable[[int], float]) -> None:
        self.now, self.is_recording, self.recordings = 0.0, False, 0
        self._took_s, self._ratios, self._host = took_s, ratios, host
        self.kinds: Mapping[str, Callable[[], object]] = {kind: partial(self._call, kind) for kind in took_s}

    def _call(self, kind: str) -> None:
        times = self._ratios[kind] if self.is_recording else 1.0
        self.now += self._took_s[kind] * times * self._host(self.recordings)

    @contextmanager
    def recording(self) -> Iterator[None]:
        self.is_recording = True
        yield
        self.is_recording = False
        self.recordings += 1
        self.now += 1.0  # to write it all down, which nobody times

    def synchronize(self) -> None:
        self.now += 1e-3  # for the card, which nobody times


KINDS = ("forward", "forward and backward", "optimizer", "copy in")
times, factors = st.floats(1e-6, 1e-3), st.floats(1.0, 3.0)


@examples(40)
@given(st.tuples(*[times] * 4), st.tuples(*[factors] * 4), st.floats(0.5, 2.0))
def test_a_ratio_is_that_of_calls_in_turn_whatever_the_hosts_speed(
    took: tuple[float, ...], ratios: tuple[float, ...], other_speed: float
) -> None:
    """The host changes its speed between two repeats: plain and recorded calls of a repeat have the same."""
    known = dict(zip(KINDS, ratios, strict=True))
    work = Clocked(dict(zip(KINDS, took, strict=True)), known, lambda k: other_speed if k > 2 else 1.0)
    found = measure_recorders([work], lambda: work.now)["pytorch"]
    assert all(len(both) == RECORDINGS for both in found.pairs.values())
    recorder = fit_recorder(found.pairs, "measured: by hand")
    middle = sorted(ratios)[1:3]
    assert recorder.ratio == pytest.approx(sum(middle) / 2, rel=1e-6)
    assert recorder.backward == pytest.approx(known["forward and backward"], rel=1e-6)
    assert recorder.least <= min(recorder.ratio, recorder.backward)
    assert recorder.most >= max(recorder.ratio, recorder.backward)


def test_a_profile_keeps_them_and_those_of_two_hosts_have_a_mean() -> None:
    one, other = (
        Recorder(ratio=r, backward=r + 0.1, least=r, most=r + 0.2, source="measured: by hand") for r in (1.2, 1.4)
    )
    devices = [msgspec.structs.replace(make_device(), recorders={"pytorch": it}) for it in (one, other)]
    assert parse_device(dump_device(devices[0])) == devices[0]
    both = mean_of(*devices).recorders["pytorch"]
    assert (both.ratio, both.backward, both.least, both.most) == pytest.approx((1.3, 1.4, 1.2, 1.6))
    assert recorder_of(devices[0], "pytorch") == one
    assert recorder_of(make_device(), "pytorch").source.startswith("measured")


def test_a_call_that_is_recorded_faster_by_chance_costs_nothing() -> None:
    assert fit_recorder({"forward": ((2.0, 1.0),) * 3}, "measured: by hand").ratio == 1.0
