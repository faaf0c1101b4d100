"""A schedule made ready for a device: what every op takes alone in ticks, and what waits for what.

This room reads schedules and profiles. What the card and the host do with the numbers is in :mod:`streamsim.rules`.
"""
