"""Every probe of a calibration."""

from collections.abc import Iterator

from streamsim_validate.calibrate.copies import COLD_KINDS, copies, pageable
from streamsim_validate.calibrate.hand_overs import ROUND_KINDS, hand_overs, rounds
from streamsim_validate.calibrate.host_probes import SERIAL_KINDS, host_calls, serial, waiting_calls
from streamsim_validate.calibrate.kernels import kernels
from streamsim_validate.calibrate.probe import Probe
from streamsim_validate.calibrate.program_calls import PROGRAM_KINDS, programs
from streamsim_validate.calibrate.queues import queues, rules
from streamsim_validate.calibrate.shared_link import crowded, duplex

# Groups of kinds, each added after the one before. Kept samples may lack the last groups as a whole.
LATER = SERIAL_KINDS | ROUND_KINDS, PROGRAM_KINDS, set(COLD_KINDS.values())


def probes(resident_threads: int) -> Iterator[Probe]:
    """Yield every probe, and its schedule, for a card that holds ``resident_threads`` threads."""
    yield from copies()
    yield from duplex()
    yield from crowded()
    yield from pageable()
    yield from kernels(resident_threads)
    yield from hand_overs()
    yield from host_calls()
    yield from programs()
    yield from waiting_calls()
    yield from serial()
    yield from rounds()
    yield from queues()
    yield from rules()
