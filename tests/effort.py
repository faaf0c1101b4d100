"""How hard the tests try: what an ordinary run needs, or ten times that with ``--hypothesis-profile=thorough``."""

from __future__ import annotations

from hypothesis import settings

USUAL = settings.get_profile("repeat").max_examples  # conftest.py: of a law that names no number
THOROUGH = settings().max_examples > USUAL


def examples(count: int) -> settings:
    """So many examples in an ordinary run: what finds the law broken where a planted fault breaks it."""
    return settings(max_examples=max(1, count * settings().max_examples // USUAL))
