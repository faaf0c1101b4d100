"""The kernels' references and launch arithmetic, and the reference execution of schedules."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

from streamsim.errors import InputError
from streamsim.program import (
    Buffer,
    Copy,
    Kernel,
    Region,
    Schedule,
    Workload,
    WorkloadKernel,
    ring,
)
from streamsim_validate.gpu import Arrays, Key, find_kernel, kernels
from streamsim_validate.gpu.kernels import SPIN, Argument, compute_reference, stand_in
from streamsim_validate.gpu.memory import HOST_POISON, data
from streamsim_validate.gpu.reference import run_reference


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_REGISTRY", dict(kernels._REGISTRY))


def apply(name: str, reads: list[np.ndarray], widths: list[int], elements: int, parameter: int = 0) -> list[np.ndarray]:
    rows = [array.reshape(elements, -1) for array in reads]
    return compute_reference(find_kernel(Kernel(1, name, elements, parameter)), rows, widths, elements, parameter)


def test_float32_iteration_stays_within_the_tolerance() -> None:
    """An independent single-precision iteration, as the card does it, over many starts."""
    start = np.random.default_rng(0).random(20_000, np.float32) * np.float32(4)
    for iterations in (1, 2, 10, 40, 176):
        x = start.copy()
        for _ in range(iterations):
            x = np.sin(x) * np.cos(x)
        (want,) = apply("sincos", [start.view(np.uint8)], [4], len(start), iterations)
        worst = float(np.abs(x - want.view(np.float32)).max())
        assert 0 < worst < kernels.sincos_tolerance(iterations)


def test_the_argument_is_laid_out_as_in_the_source() -> None:
    """Four 8-byte numbers, then four pointers and four widths for each side; a launch takes a pointer to a pointer."""
    argument = Argument(7, 9, [(0x1000, 4)], [(0x2000, 8), (0x3000, 16)])
    assert ctypes.sizeof(Arrays) == 8 * (4 + 4 * 4)
    inner = ctypes.c_void_p.from_address(argument.address).value
    assert inner is not None
    words = list((ctypes.c_longlong * 20).from_address(inner))
    assert words == [7, 9, 1, 2, 0x1000, 0, 0, 0, 4, 0, 0, 0, 0x2000, 0x3000, 0, 0, 8, 16, 0, 0]


def test_the_stand_in_takes_what_is_predicted() -> None:
    """2 ms over a million elements, on a card of 8192 threads: all of it, or the share that it is said to fill.

    A part of a launch takes what the model says of it: of 2 ms, of which 4 us are the launch, an eighth takes
    4 + 1996 / 8 us on all of the card. A small part takes and holds what a few threads do.
    """
    assert stand_in(Kernel(1, elements=10**6, duration_s=2e-3), 8192, 4e-6) == pytest.approx((2e-3, 1.0))
    assert stand_in(Kernel(1, elements=10**6, duration_s=2e-3, fill=0.3), 8192, 4e-6) == pytest.approx((2e-3, 0.3))
    assert stand_in(Kernel(1, duration_s=250e-6, share=1 / 8), 8192, 4e-6) == pytest.approx((253.5e-6, 1.0))
    waves = 2**20 / 8192
    took_s, share = stand_in(Kernel(1, duration_s=2e-3 / 2048, share=1 / 2048, threads=512), 8192, 0.0)
    assert took_s == pytest.approx(2e-3 / waves / 4)
    assert share == pytest.approx(2e-3 / 2048 / took_s)


def test_an_unknown_kernel_spins_for_its_duration_or_is_refused() -> None:
    assert find_kernel(Kernel(1, "forward", duration_s=1e-3)) is SPIN
    with pytest.raises(
        InputError, match=r"kernel 'forward': neither a known kernel \(.*copy, sincos, sleep, .*vector_add\)"
    ):
        find_kernel(Kernel(1, "forward", 10))


# Whole schedules


def test_a_schedule_worked_by_hand() -> None:
    """8 bytes up, the second 4 of them copied down: h is data, back holds its second half and the host's poison."""
    schedule = Schedule(
        (
            Copy("h2d", 8, 1, Region("h", 0, 8), Region("d", 0, 8)),
            Copy("d2h", 4, 1, Region("back", 2, 4), Region("d", 4, 4)),
        ),
        ("non-blocking",),
        (Buffer("h", 8, "pinned"), Buffer("back", 8, "pinned"), Buffer("d", 8, "device")),
    )
    ((key, output),) = run_reference(schedule).items()
    poison = [HOST_POISON] * 2
    assert key == Key("pinned", "back")
    assert output.bytes.tolist() == [*poison, *data("h", 8)[4:].tolist(), *poison]
    assert not output.tolerance.any()


def test_the_tolerance_follows_the_data() -> None:
    """Twice sincos in a row may be off twice as far; a ring's slot that is filled anew starts anew."""
    once, twice = (
        run_reference(ring(Workload(100, (4,), (4,), (WorkloadKernel("sincos", parameter=4),) * n), 10, 2))[
            Key("pinned", "h_out0")
        ].tolerance.max()
        for n in (1, 2)
    )
    assert once == np.float32(kernels.sincos_tolerance(4))
    assert twice == once  # both kernels of a chunk read the input and write the output
    in_place = run_reference(ring(Workload(100, (4,), (), (WorkloadKernel("sincos", parameter=4),) * 2), 10, 2))
    assert {output.tolerance.max() for output in in_place.values()} == {2 * once}


def test_kernels_of_ones_own_come_from_cuda_source(tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(
        'extern "C" __global__ void one(const Arrays a) {}\n__global__ void not_me() {}\n'
        'extern "C" __global__ void __launch_bounds__(256) two(const Arrays a) {}\n'
    )
    assert kernels.load_kernels(str(path)) == ["one", "two"]
    assert find_kernel(Kernel(1, "two", 4)).source == path.read_text()


def test_kernels_of_ones_own_come_from_python(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from streamsim_validate.gpu import KernelSpec, register\n"
        "register(KernelSpec('forward', 'its source', reference=lambda inputs, widths, elements, parameter: inputs))\n"
    )
    assert kernels.load_kernels(str(path)) == ["forward"]
