"""Schedules made ready for a device: the ticks that each op takes alone, and the ops that it waits for.

This room reads schedules and profiles. The rules of the card and the host are in :mod:`streamsim.rules`.
"""
