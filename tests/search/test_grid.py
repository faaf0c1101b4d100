"""A grid of programs: what is in one by default, what is refused, and what a card's memory leaves of it."""

import pytest
from strategies import pipeline_of

from streamsim.program import Config
from streamsim.search import Grid


def test_it_says_of_itself_how_many_there_are_of_each_choice_and_what_may_be_held() -> None:
    assert repr(Grid((1, 2, 3), (1, 2))) == (
        "Grid(chunks x 3, streams x 2, order x 2, buffers x 1, launch x 1, pinned memory)"
    )
    assert repr(Grid(memory="pageable", memory_limit_bytes=2048)).endswith(", pageable memory, 2 KiB on the card)")


def test_a_grid_goes_from_one_chunk_on_one_stream_to_256_on_32_in_both_orders() -> None:
    configs = set(Grid().configs(pipeline_of(1000)))
    assert configs == {
        Config(order, chunks, streams)
        for order in ("depth-first", "breadth-first")
        for chunks in range(1, 257)
        for streams in range(1, min(chunks, 32) + 1)
    }


@pytest.mark.parametrize(
    ("asked", "card", "limit"), [(None, None, None), (None, 40, 40), (40, None, 40), (40, 99, 40), (99, 40, 40)]
)
def test_what_may_be_held_is_the_least_of_what_was_asked_and_what_the_card_has(
    asked: int | None, card: int | None, limit: int | None
) -> None:
    assert Grid(memory_limit_bytes=asked).within(card) == Grid(memory_limit_bytes=limit)
