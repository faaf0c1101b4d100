"""The link that a prediction assumes, and how well it is known: one line, from a profile's numbers and sources."""

import re
from pathlib import Path

from streamsim.device.generations import as_device
from streamsim.device.profile import Device

BYTES_PER_GB = 1e9
REPORT = re.compile(r"https?://|\boutput of\b")  # what a published source names is a report
PUBLISHED_WITHIN = 0.10  # how far predictions with assumed latencies were off: figures/published.py
COUNTS = ("no", "one", "two", "three", "four")


def known_within(device: Device | None) -> float:
    """Return the relative error of predictions on ``device`` if its latencies are assumed, else 0.

    The error was seen in published cases: 0.10 is 10 %. A recorded time line has no device, and no error.
    """
    if device is None:
        return 0.0
    has_latencies = "h2d.latency_s" in device.sources
    return PUBLISHED_WITHIN if has_latencies and device.source("h2d.latency_s")[0] == "assumed" else 0.0


def within_words(device: Device | None) -> list[str]:
    """Return a line that says how far predictions may be off if the latencies of ``device`` are assumed, else none."""
    if device is None or not (within := known_within(device)):
        return []
    return [f"{device.name}: times may be off by {within * 100:g} %; its latencies are assumed"]


def link_words(device: Device | str | Path, pageable: bool = False) -> str:
    """Return the link's name and rates, each with the kind of its source, on one line.

    For example ``PCIe gen 4 x16; H2D 25.7, D2H 25.8 GB/s published (one report); both at once H2D 12, ...``.
    A measured rate has its relative spread behind it, if known. A published rate has the number of reports, an assumed
    rate the reason. With ``pageable``, the line also has the rates of pageable memory.
    """
    device = as_device(device)
    parts = [device.link] if device.link else []
    parts.append(_both(device, "bandwidth_bytes_per_s"))
    if device.copy_engines.count < 2:
        parts.append("one direction at a time")
    else:
        parts.append(f"both at once {_both(device, 'duplex_bandwidth_bytes_per_s')}")
    if pageable:
        parts.append(f"pageable {_both(device, 'pageable_bandwidth_bytes_per_s')}")
    return "; ".join(parts)


def _both(device: Device, field: str) -> str:
    there, back = _known(device, f"h2d.{field}"), _known(device, f"d2h.{field}")
    rates = [f"{getattr(link, field) / BYTES_PER_GB:.3g}" for link in (device.h2d, device.d2h)]
    if there[0] != back[0]:
        return f"H2D {rates[0]} GB/s {_words(*there)}, D2H {rates[1]} GB/s {_words(*back)}"
    how = " and ".join(dict.fromkeys((there[1], back[1])))
    return f"H2D {rates[0]}, D2H {rates[1]} GB/s {_words(there[0], how)}"


def _words(kind: str, how: str) -> str:
    return f"{kind} ({how})" if how else kind


def _known(device: Device, name: str) -> tuple[str, str]:
    """Return the kind of a number's source, and its spread, number of reports or reason ("" if unknown)."""
    kind, text = device.source(name)
    if kind == "measured":
        return kind, f"+- {device.spread[name]:.1%}" if name in device.spread else ""
    if kind == "published":
        reports = max(1, len(REPORT.findall(text)))
        count = COUNTS[reports] if reports < len(COUNTS) else str(reports)
        return kind, f"{count} report{'' if reports == 1 else 's'}"
    return kind, re.split("[;:,]", text, maxsplit=1)[0].strip()
