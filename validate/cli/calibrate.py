"""``streamsim-validate calibrate``: a card's probes, measured or kept from earlier, fitted to its device profile."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from streamsim.cli.brief_help import BriefCommand
from streamsim.cli.notes import noting_compilation, steps
from streamsim.cli.options import FILE, gpu_option
from streamsim.cli.printing import tell
from streamsim.device import TIMES, Device, number_names, shipped_front_ends, write_device
from streamsim.errors import InputError
from streamsim_validate.calibrate import (
    Samples,
    fits,
    measure_front_ends,
    measure_probes,
    measure_recorders,
    read_samples,
    variation,
    write_samples,
)
from streamsim_validate.gpu import compiled_rounds, installed_libraries, open_gpu, recorded_works
from streamsim_validate.records import check_replaceable

US_PER_S, BYTES_PER_GB = 1e6, 1e9


@click.command("calibrate", cls=BriefCommand)
@click.option("--output", "-o", type=FILE, default="my-gpu.toml", show_default=True, help="File for the profile.")
@click.option("--samples", type=FILE, help="File for the raw samples, too (gzipped JSON).")
@click.option("--from", "taken", type=FILE, help="Fit the samples of this file; needs no GPU.")
@gpu_option("The GPU's number.", 0)
def calibrate_command(output: Path, samples: Path | None, taken: Path | None, device: int) -> None:
    """Measure this GPU, its link and its host, and write their device profile.

    The micro-benchmarks take half a minute, or a minute if PyTorch and nvcc are installed. They also time the calls of
    CuPy, PyTorch and programs in C++. The variable CUDA_DEVICE_MAX_CONNECTIONS applies.

    \b
    Examples:
      streamsim-validate calibrate -o my-gpu.toml
      streamsim-validate calibrate -o my-gpu.toml --samples my-gpu.samples.gz
      streamsim-validate calibrate -o again.toml --from my-gpu.samples.gz
    """  # noqa: D301 - click wants the backspace itself
    if taken and samples:
        raise InputError("--samples: --from measures nothing that could be kept; leave one of the two out")
    if samples == output:
        raise InputError(f"--samples {samples}: is the profile's file, too; name another one")
    check_replaceable(output, "device")
    if samples:
        check_replaceable(samples, "samples")
    found = read_samples(taken) if taken else _measured(device)
    if samples:
        write_samples(found, samples)
    with noting_compilation():
        profile = fits.fit(found)
    write_device(profile, output)
    why = "the samples have none of it" if taken else "it is not installed or sees no card"
    tell(*_numbers(profile), *_front_ends(profile, found, why), *_recorders(profile))
    tell(f"{output}: {profile.description}")


def _measured(device: int) -> Samples:
    with open_gpu(device) as gpu, steps(sys.stderr) as on_step:
        found = measure_probes(gpu, on_step=on_step)
        with compiled_rounds(device) as compiled:
            found = replace(found, front_ends=measure_front_ends(installed_libraries(device), compiled, on_step))
        return replace(found, recorders=measure_recorders(recorded_works(device), on_step=on_step))


def _numbers(profile: Device) -> Iterator[str]:
    """Yield the profile's numbers, one a line, each with its spread; without the kernels' tables."""
    for name in sorted(number_names(profile) - {"compute.kernels", "connections", "memory_bytes"}):
        part, _, field = name.partition(".")
        value = getattr(getattr(profile, part), field)
        spread = f" +- {profile.spread[name]:.1%}" if name in profile.spread else ""
        beside = profile.sources.get(name, "").partition("; ")[2]  # such as the rate from the host's caches
        yield f"{name:36s} {_with_unit(field, value)}{spread}" + (f" ({beside})" if beside else "")


def _front_ends(profile: Device, samples: Samples, why_not: str) -> Iterator[str]:
    """Yield what the calls of each front end cost, and how far the host's speed varied while that was measured."""
    for name, front_end in profile.front_ends.items():
        costs = ", ".join(f"{field.removesuffix('_s')} {getattr(front_end, field) * US_PER_S:.1f}" for field in TIMES)
        varied = variation(samples.front_ends[name].rounds)
        yield f"{name}: {costs} us +- {front_end.spread:.1%}; the host's speed varied by {varied:.2f}"
    for name in sorted(shipped_front_ends().keys() - profile.front_ends.keys()):
        yield f"{name}: not calibrated, since {why_not}; the mean of two hosts is assumed"


def _recorders(profile: Device) -> Iterator[str]:
    """Yield what profilers take of the host's time."""
    for name, recorder in profile.recorders.items():
        times = f"{recorder.ratio:.2f}, {recorder.backward:.2f} with a backward pass"
        yield f"{name}: recorded, the host takes {times} of its own time, {recorder.least:.2f} to {recorder.most:.2f}"


def _with_unit(field: str, value: float) -> str:
    if field.endswith("_per_s"):
        return f"{value / BYTES_PER_GB:.2f} GB/s"
    return f"{value * US_PER_S:.3f} us" if field.endswith("_s") else str(value)
