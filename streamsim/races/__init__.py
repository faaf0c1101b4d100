"""The races of a schedule: ops that touch the same bytes without an order, and the waits that they lack.

``check`` finds races by the order of ``happens_before`` and the ``touched_bytes``; ``repaired`` adds the waits.
"""
