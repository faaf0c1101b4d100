"""Python's garbage collector, put off while something runs that it would only slow down."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_off() -> Iterator[None]:
    """Look for no garbage meanwhile: a collection stops the thread for milliseconds."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
