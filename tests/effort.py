"""How hard the tests try: what finds planted faults, less in an ordinary run, ten times that in a thorough one."""

from hypothesis import settings

FULL = settings.get_profile("full").max_examples  # conftest.py: of a law that names no number
THOROUGH = settings().max_examples > FULL


def examples(count: int) -> settings:
    """So many examples in a full run: what finds the law broken where a planted fault breaks it."""
    return settings(max_examples=max(1, count * settings().max_examples // FULL))
