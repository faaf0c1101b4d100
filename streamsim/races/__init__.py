"""The races of a schedule: ops that touch the same bytes without an order, and the waits that they lack.

``check`` finds races by the order of ``happens_before`` and the bytes that ops touch; ``repaired`` adds the waits.
"""

from streamsim.races.check import Finding, Hazard, MissingWait, check, earlier_ops, repaired, touched, unnamed_memory
from streamsim.races.happens_before import HappensBefore
