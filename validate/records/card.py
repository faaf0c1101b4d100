"""The card that was measured, as a record and a profile's description name it."""

import msgspec

from streamsim.device import Device
from streamsim.errors import InputError

CALIBRATED_ON = "calibrated on "  # then the card's whole name
AFTER_A_NAME = ("", ",", ";")  # what may stand behind a card's name in a description


class Card(msgspec.Struct, frozen=True):
    """The card of a record, and the software that measured on it."""

    name: str
    pci_bus: str
    memory_bytes: int
    multiprocessors: int
    threads_per_multiprocessor: int
    copy_engines: int
    compute_capability: str
    driver: str
    cuda_driver: str
    cuda_runtime: str
    cupy: str

    @property
    def resident_threads(self) -> int:
        """The threads that fill the card."""
        return self.multiprocessors * self.threads_per_multiprocessor


def check_same_card(card: Card, device: Device) -> None:
    """Raise InputError if the profile is of another card than the record that it is to predict.

    A profile of ``calibrate`` names its card in its description. A profile that names none is accepted.
    """
    named = device.description
    _, calibrated, on = named.rpartition(CALIBRATED_ON)
    if calibrated and not _begins_with(on, card.name):
        raise InputError(
            f"device {device.name!r} is another card's profile ({named}); the record is of {card.name}:"
            " use the profile in the record or calibrate that card"
        )


def _begins_with(text: str, card: str) -> bool:
    """Return whether the text begins with the whole name of the card: "NVIDIA H200 NVL" does not with "NVIDIA H200"."""
    return text.startswith(card) and text[len(card) :].lstrip()[:1] in AFTER_A_NAME
