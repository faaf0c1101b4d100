"""A schedule made ready for a device: what every op costs in ticks, and what waits for what."""
