"""``streamsim-validate calibrate``: a card's probes, measured or kept from earlier, fitted to its device profile."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
from msgspec.structs import replace

from streamsim.cli.options import FILE, gpu_option, option
from streamsim.cli.running import BriefCommand, steps, tell
from streamsim.device import Device, shipped_front_ends
from streamsim.errors import InputError
from streamsim.files import write_toml
from streamsim_validate.calibrate import (
    Samples,
    fits,
    measure_front_ends,
    measure_probes,
    read_samples,
    write_samples,
)
from streamsim_validate.gpu import compiled_rounds, installed_libraries, open_gpu
from streamsim_validate.records import check_replaceable


@click.command("calibrate", cls=BriefCommand)
@option("--output -o", "File for the profile.", FILE, default="my-gpu.toml")
@option("--samples", "File for the raw samples, too (gzipped JSON).", FILE)
@option("--from taken", "Fit the samples of this file; needs no GPU.", FILE)
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
    profile = fits.fit(found)
    write_toml(profile, output)
    why = "the samples have none of it" if taken else "it is not installed or sees no card"
    tell(*_front_ends(profile, why), f"{output}: {profile.description}")


def _measured(device: int) -> Samples:
    with open_gpu(device) as gpu, steps(sys.stderr) as on_step:
        found = measure_probes(gpu, on_step=on_step)
        with compiled_rounds(device) as compiled:
            return replace(found, front_ends=measure_front_ends(installed_libraries(device), compiled, on_step))


def _front_ends(profile: Device, why_not: str) -> Iterator[str]:
    """Yield which front ends were not measured."""
    for name in sorted(shipped_front_ends().keys() - profile.front_ends.keys()):
        yield f"{name}: not calibrated, since {why_not}; the mean of two hosts is assumed"
