"""Return True if ops that touch the same bytes have an order, and the waits that they lack.

``check`` finds races by the order of ``happens_before`` and the ``touched_bytes``; ``repaired`` adds the waits.
"""
