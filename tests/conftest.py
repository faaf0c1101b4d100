"""How the tests draw their examples, and what those share that need a card.

The same examples at every run, so that a change passes or fails on its own account. To search further:
``pytest --hypothesis-profile=search``.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from streamsim.errors import InputError
from streamsim_validate.gpu import open_gpu

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamsim_validate.gpu import Gpu

settings.register_profile("repeat", derandomize=True)
settings.register_profile("search", max_examples=500)
settings.load_profile("repeat")


@cache
def why_no_gpu() -> str:
    """Why there is nothing to test on, or "" ."""
    try:
        with open_gpu():
            return ""
    except InputError as error:
        return str(error)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests with the marker ``gpu`` where there is no card, and say why."""
    if item.get_closest_marker("gpu") and why_no_gpu():
        pytest.skip(why_no_gpu())


@pytest.fixture(scope="module")
def gpu() -> Iterator[Gpu]:
    """The card, for tests with the marker ``gpu``."""
    with open_gpu() as found:
        yield found
