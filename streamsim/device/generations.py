"""Profiles made from a card's name, for cards without a profile.

The name shows the generation of PCIe, the lanes, and the threads that a multiprocessor holds. The rates of pinned
copies follow from the link. They are assumed, and :func:`profile_from_name` says so in the profile's sources. Numbers
that need a calibration (latencies, hand-overs, the host) are those of the other profiles without one.
"""

import re
from typing import NamedTuple

import msgspec

from streamsim.device.library import device_names, load_device
from streamsim.device.profile import Device
from streamsim.device.variations import with_values

PATTERN = "t4"  # a profile of published figures, for all numbers that do not depend on the card
# The share of the link's raw rate that pinned copies reach on cards with published figures: gen 3 and 4 about 0.8, gen
# 5 0.87.
REACHED = {1: 0.8, 2: 0.8, 3: 0.8, 4: 0.8, 5: 0.87, 6: 0.87}
LANE_BYTES_PER_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}  # by generation of PCIe
# The rate beside the other direction over the rate alone, for H2D and D2H. An RTX 5060 Ti has 18.0 of 25.6 and all of
# 25.8 GB/s, an RTX 4090 nearly all of 23.9 and 13 of 26.6 GB/s. Other cards have the pattern's ratios.
BESIDE = {"GeForce RTX 50": (0.703, 1.0), "GeForce RTX 40": (0.975, 0.49)}
PAGEABLE_SHARE = 0.5  # rate of pageable copies over that of pinned copies
IN_FLIGHT_S = 1.75e-6  # the bytes in flight are those that the link carries in this time
_LINK = re.compile(r"PCIe gen ([1-6]) x(\d+)")
# Words that make another card of it behind a model's number.
VARIANTS = {"ti", "super", "laptop", "max", "mobile", "d", "nvl", "ada", "pcie", "gx"}
MAKERS = ("nvidia", "geforce", "tesla", "gpu", "amd", "graphics")  # words that a profile's name does without
SAME_ON_PCIE = ("a100", "v100", "p100")  # cards whose PCIe form has the same link as their SXM form


class Generation(NamedTuple):
    """Cards of one generation with one link.

    ``names``: a regular expression for their names. ``threads``: those that a multiprocessor holds (0: unknown).
    """

    names: str
    words: str
    link: str
    threads: int


# The first entry that matches a name counts. Links: NVIDIA's and AMD's data sheets of the cards. Threads: the CUDA
# programming guide, technical specifications by compute capability.
GENERATIONS = (
    Generation(r"\bgb[23]00\b|\bgh200\b", "Grace superchip", "NVLink-C2C", 2048),
    Generation(
        r"\b[hb][12348]\d{0,2}0?\b.*\bnvl\b|\bh100\b|\bh200\b|\bh800\b|\bh20\b", "Hopper", "PCIe gen 5 x16", 2048
    ),
    Generation(r"\bb[123]00\b", "Blackwell", "PCIe gen 5 x16", 2048),
    Generation(r"\brtx pro \d+", "RTX PRO Blackwell", "PCIe gen 5 x16", 1536),
    Generation(r"\brtx50(50|60).*|\brtx50\d\d.*laptop", "GeForce RTX 50", "PCIe gen 5 x8", 1536),
    Generation(r"\brtx50\d\d", "GeForce RTX 50", "PCIe gen 5 x16", 1536),
    Generation(r"\brtx40(50|60).*|\brtx40\d\d.*laptop", "GeForce RTX 40", "PCIe gen 4 x8", 1536),
    Generation(r"\brtx40\d\d", "GeForce RTX 40", "PCIe gen 4 x16", 1536),
    Generation(r"\brtx3050|\brtx30\d\d.*laptop", "GeForce RTX 30", "PCIe gen 4 x8", 1536),
    Generation(r"\brtx30\d\d", "GeForce RTX 30", "PCIe gen 4 x16", 1536),
    Generation(r"\brtx20\d\d|\bgtx16\d\d|\btitan rtx|\bquadro (rtx|t\d)", "Turing", "PCIe gen 3 x16", 1024),
    Generation(r"\bgtx1030|\bgt1030|\bmx\d\d\d", "GeForce MX", "PCIe gen 3 x4", 2048),
    Generation(r"\bgtx10\d\d|\btitan xp?\b|\bp40\b|\bp4\b|\bquadro p", "Pascal", "PCIe gen 3 x16", 2048),
    Generation(r"\bgtx9\d\d|\bm60\b|\bm40\b|\bquadro m", "Maxwell", "PCIe gen 3 x16", 2048),
    Generation(r"\bgtx7\d\d|\bk[1-8]0m?\b|\btitan\b", "Kepler", "PCIe gen 3 x16", 2048),
    Generation(r"\bp100\b", "Pascal", "PCIe gen 3 x16", 2048),
    Generation(r"\bv100s?\b|\btitan v\b|\bgv100\b", "Volta", "PCIe gen 3 x16", 2048),
    Generation(r"\bt4g?\b|\bt10\b|\bt1000\b|\bt600\b|\bt400\b", "Turing", "PCIe gen 3 x16", 1024),
    Generation(r"\ba100\b|\ba800\b|\ba30\b", "Ampere", "PCIe gen 4 x16", 2048),
    Generation(r"\ba2\b", "Ampere", "PCIe gen 4 x8", 1536),
    Generation(r"\brtxa?\d000 ada|\bl4\b|\bl20\b|\bl40s?\b|\bl2\b", "Ada", "PCIe gen 4 x16", 1536),
    Generation(r"\ba10g?\b|\ba16\b|\ba40\b|\b(rtx)?a[2456]\d00\b|\brtxa\d000", "Ampere", "PCIe gen 4 x16", 1536),
    Generation(r"\borin\b|\bxavier\b|\bjetson\b|\btegra\b|\bthor\b", "Jetson", "memory of the host", 1536),
    Generation(r"\bmi3\d\dx?\b", "AMD Instinct", "PCIe gen 5 x16", 2048),
    Generation(r"\bmi[12]\d\dx?\b|\bgfx9", "AMD Instinct", "PCIe gen 4 x16", 2048),
    Generation(r"\bamd\b|\bradeon\b|\brx \d\d\d\d|\bgfx1", "AMD Radeon", "PCIe gen 4 x16", 2048),
)
UNKNOWN = Generation("", "unknown generation", "", 0)
OTHER_LINKS = {
    "NVLink-C2C": (300e9, "NVLink-C2C, the least of 300 to 400 GB/s"),
    "memory of the host": (10e9, "card and host share their memory"),
    "": (REACHED[3] * 16 * LANE_BYTES_PER_S[3], "as PCIe gen 3 x16, as nothing tells its link"),
}


def words_of(card: str) -> str:
    """Return a card's name in lower case with its model as one word: ``NVIDIA GeForce RTX 3080`` ends in rtx3080."""
    words = re.sub(r"[^a-z0-9]+", " ", card.lower()).strip()
    return re.sub(r"\b(rtx|gtx|gt) (a?\d)", r"\1\2", words)


def profile_named(card: str) -> str | None:
    """Return the name of the shipped profile of a card, or None if there is none.

    For example, ``"NVIDIA A100-SXM4-40GB"`` gives ``a100``. A variant such as ``RTX 3080 Ti`` is another card.
    """
    words, shipped = words_of(card).split(), set(device_names())
    for k, word in enumerate(words):
        following = words[k + 1 : k + 2]
        for used, name in ((2, "".join((word, *following))), (2, "-".join((word, *following))), (1, word)):
            variants = VARIANTS & set(words[k + used :]) - ({"pcie"} if name in SAME_ON_PCIE else set())
            if name in shipped and not name.startswith("ideal"):
                return None if variants else name
    return None


def generation_of(card: str) -> Generation:
    """Return the generation that a card's name shows, or UNKNOWN."""
    words = words_of(card)
    return next((kind for kind in GENERATIONS if re.search(kind.names, words)), UNKNOWN)


def link_limit(link: str) -> float:
    """Return the raw rate of a link such as ``PCIe gen 4 x16``, bytes per second; infinite for an unknown link."""
    match = _LINK.search(link)
    return float("inf") if match is None else LANE_BYTES_PER_S[int(match[1])] * int(match[2])


def pinned_rate(link: str) -> tuple[float, str]:
    """Return the assumed rate of pinned copies over a link, bytes per second, and the reason for it."""
    match = _LINK.search(link)
    if match is None:
        return OTHER_LINKS[link]
    share = REACHED[int(match[1])]
    return share * link_limit(link), f"{link}, of which pinned copies of other cards reach {share:.0%}"


def profile_from_name(card: str, multiprocessors: int = 0, memory_bytes: int = 0, copy_engines: int = 0) -> Device:
    """Return a profile made from the name of a card that has none.

    ``multiprocessors``, ``memory_bytes``, ``copy_engines``: 0 if unknown.
    """
    kind = generation_of(card)
    rate, why = pinned_rate(kind.link)
    pattern = load_device(PATTERN)
    sources = dict(pattern.sources)
    values: dict[str, float | int] = {}
    for k, direction in enumerate(("h2d", "d2h")):
        link = getattr(pattern, direction)
        loss = link.duplex_bandwidth_bytes_per_s / link.bandwidth_bytes_per_s
        loss = BESIDE[kind.words][k] if kind.words in BESIDE else loss
        rates = {"": 1.0, "crowded_": 1.0, "duplex_": loss, "pageable_": PAGEABLE_SHARE}
        values |= {f"{direction}.{name}bandwidth_bytes_per_s": rate * share for name, share in rates.items()}
        values[f"{direction}.in_flight_bytes"] = round(rate * IN_FLIGHT_S)
        sources[f"{direction}.bandwidth_bytes_per_s"] = f"assumed: {why}"
    threads = values["compute.resident_threads"] = multiprocessors * kind.threads
    known = f"{multiprocessors} multiprocessors as recorded, with {kind.threads} threads each"
    unknown = "unknown for this card; no chunk is too small to fill it"
    sources["compute.resident_threads"] = f"assumed: {known if threads else unknown}"
    sources["copy_engines.count"] = "assumed: two, as cards since Kepler have them"
    sources["compute.concurrent_kernels"] = "assumed: 128, as cards since Volta"
    made = msgspec.structs.replace(
        with_values(pattern, values),
        name="-".join(word for word in words_of(card).split() if word not in MAKERS)[:40] or "unknown-card",
        description=f"{card or 'a card without a name'}: made from its name ({kind.words}), not measured",
        link=kind.link,
        memory_bytes=None,
        sources={name: text for name, text in sources.items() if name != "memory_bytes"},
    )
    return as_recorded(made, memory_bytes, copy_engines)


def as_recorded(device: Device, memory_bytes: int = 0, copy_engines: int = 0) -> Device:
    """Return ``device`` with the memory and the copy engines that a recording gives (0: it gives none)."""
    sources = dict(device.sources)
    if memory_bytes:
        sources["memory_bytes"] = "measured: as the recording says"
        device = msgspec.structs.replace(device, memory_bytes=memory_bytes, sources=sources)
    count = min(copy_engines, 2)
    if count not in (0, device.copy_engines.count):
        sources["copy_engines.count"] = f"measured: {copy_engines}, as the recording says"
        device = msgspec.structs.replace(with_values(device, {"copy_engines.count": count}), sources=sources)
    return device


def assumptions_of(device: Device) -> str:
    """Return the assumed rates of a profile on one line, or "" if its rates are measured or published."""
    names = [f"{name}.bandwidth_bytes_per_s" for name in ("h2d", "d2h")]
    assumed = [name for name in names if device.source(name)[0] == "assumed"]
    if not assumed:
        return ""
    which = " and ".join(name.partition(".")[0].upper() for name in assumed)
    rate, why = device.h2d.bandwidth_bytes_per_s, device.source(assumed[0])[1]
    return (
        f"{device.name}: nobody measured its pinned copies; {which} are assumed to run at {rate / 1e9:.3g} GB/s ({why})"
    )
