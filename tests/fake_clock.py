"""The clock of cards that are not there: only their own calls and work move it."""

CALL_NS, WORK_NS = 1000, 10_000


class Clock:
    """Nanoseconds; calling it reads them."""

    def __init__(self, now_ns: int = 0) -> None:
        self.now_ns = now_ns

    def __call__(self) -> int:
        return self.now_ns

    def take(self, ns: int) -> int:
        """When what takes so long begins."""
        self.now_ns += ns
        return self.now_ns - ns
