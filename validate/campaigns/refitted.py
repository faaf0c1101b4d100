"""Records with other profiles, made from the samples that they keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from streamsim_validate.calibrate.samples import PlainSamples, Samples

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamsim.device.profile import Device
    from streamsim_validate.records import Record, Run

Change = tuple["Device", "Samples"]  # of a calibration: the profile, and the samples


def refitted(record: Record, change: Callable[[Device, Samples], Change]) -> Record:
    """The record with what ``change`` makes of each of its calibrations that has samples."""
    return msgspec.structs.replace(record, runs=tuple(_refitted(run, change) for run in record.runs))


def _refitted(run: Run, change: Callable[[Device, Samples], Change]) -> Run:
    changed: dict[str, Any] = {}
    for when, name in (("before", "samples"), ("after", "samples_after")):
        device, plain = run.profile(when), getattr(run, name)
        if device is not None and plain is not None:
            device, samples = change(device, Samples.from_plain(msgspec.convert(plain, PlainSamples)))
            changed |= {when: msgspec.to_builtins(device), name: msgspec.to_builtins(samples.plain())}
    return msgspec.structs.replace(run, **changed)
