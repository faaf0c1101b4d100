"""Ways to break code beside those that cosmic-ray has: a statement, an item or an argument is gone, a call another.

Faults that no test noticed, found by hand, were of these kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import parso
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.plugins import OPERATOR_PROVIDERS

Place = tuple[tuple[int, int], tuple[int, int]]  # (line, column) of its begin and its end

STATEMENTS = ("atom_expr", "yield_expr", "del_stmt", "raise_stmt")
ITEMS = ("testlist_comp", "dictorsetmaker", "arglist")
COMPREHENSIONS = ("comp_for", "sync_comp_for")
OTHER_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list", "floor": "ceil"}


class DropStatement(Operator):  # type: ignore[misc]  # cosmic-ray has no types
    """``pass`` in place of a call, a ``raise``, an early ``return``, a change of something that is there already, ...

    What would only leave a name without a value is left alone: every test that comes by notices that.
    """

    def mutation_positions(self, node: Any) -> Iterator[Place]:
        if node.type == "simple_stmt" and _may_go(node.children[0]):
            yield node.children[0].start_pos, node.children[0].end_pos

    def mutate(self, node: Any, index: int) -> Any:  # noqa: ARG002 - there is but one
        node.children[0] = parso.parse(node.children[0].get_first_leaf().prefix + "pass")
        return node

    @classmethod
    def examples(cls) -> Iterable[Example]:
        return (
            Example("f()\n", "pass\n"),
            Example("x: int\nx = 0\nx += 1\ny.z = 2\n", "x: int\nx = 0\nx += 1\npass\n", occurrence=1),
        )


def _may_go(statement: Any) -> Any:
    if statement.type == "return_stmt":
        return statement.parent.parent.parent.type != "funcdef"  # simple statement, suite: the last word otherwise
    if statement.type == "expr_stmt":
        target, sign = statement.children[:2]
        if sign.type == "annassign":
            return target.type == "atom_expr" and len(sign.children) > 2  # with a value
        return target.type == "atom_expr" or sign.value != "="
    return statement.type in STATEMENTS


class DropItem(Operator):  # type: ignore[misc]
    """One item less of a tuple, a list, a dict or a set that is written out; one argument by name less of a call."""

    def mutation_positions(self, node: Any) -> Iterator[Place]:
        for item in self._dropped(node):
            yield item[0].start_pos, item[-1].end_pos

    def mutate(self, node: Any, index: int) -> Any:
        gone = self._dropped(node)[index]
        items, commas = _items(node)
        kept = [item for item in items if item[0] is not gone[0]]
        is_tuple = node.type == "testlist_comp" and node.parent.children[0].value == "("
        trailing = len(commas) == len(items) or (is_tuple and len(kept) == 1)
        between = commas[: len(kept) if trailing else len(kept) - 1] if kept else []
        for item in kept[:1]:
            item[0].get_first_leaf().prefix = items[0][0].get_first_leaf().prefix
        node.children = [part for k, item in enumerate(kept) for part in (*item, *between[k : k + 1])]
        return node

    def _dropped(self, node: Any) -> list[list[Any]]:
        """Those of the items of a node that can go."""
        if node.type not in ITEMS or any(child.type in COMPREHENSIONS for child in node.children):
            return []
        items, commas = _items(node)
        if node.type == "arglist":
            called = node.get_first_leaf().get_previous_leaf().get_previous_leaf().value
            if called[0].isupper():  # a type, which mostly asks for all of its fields
                return []
            return [item for item in items if _is_keyword(item[0])]
        return items if commas else []

    @classmethod
    def examples(cls) -> Iterable[Example]:
        return (
            Example("x = (1, 2, 3)", "x = (1, 3)", occurrence=1),
            Example("x = (1, 2)", "x = (2,)"),
            Example("x = (1,)", "x = ()"),
            Example("x = [1, 2]", "x = [1]", occurrence=1),
            Example("x = {1: 2, 3: 4}", "x = {1: 2}", occurrence=1),
            Example("f(1, a=2)", "f(1)"),
            Example("f(**{1: 2}, a=2)", "f(**{1: 2})"),
        )


def _is_keyword(argument: Any) -> bool:
    return argument.type == "argument" and getattr(argument.children[1], "value", "") == "="


def _items(node: Any) -> tuple[list[list[Any]], list[Any]]:
    """The items of a node, each as its children (three of an item of a dict), and the commas behind them."""
    items: list[list[Any]] = [[]]
    commas = []
    for child in node.children:
        if getattr(child, "value", "") == ",":
            commas.append(child)
            items.append([])
        else:
            items[-1].append(child)
    return [item for item in items if item], commas


class OtherCall(Operator):  # type: ignore[misc]
    """``max`` for ``min``, ``all`` for ``any``, the order in which things happen to be for a sorted one."""

    def mutation_positions(self, node: Any) -> Iterator[Place]:
        if node.type == "name" and node.value in OTHER_CALLS:
            after = node.get_next_leaf()
            if after is not None and after.value == "(":
                yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:  # noqa: ARG002 - there is but one
        node.value = OTHER_CALLS[node.value]
        return node

    @classmethod
    def examples(cls) -> Iterable[Example]:
        return (Example("x = min(y)", "x = max(y)"), Example("any(x)", "all(x)"))


OURS = (DropStatement, DropItem, OtherCall)


def register() -> None:
    """Make these known to cosmic-ray, as operators of a provider ``ours``."""
    OPERATOR_PROVIDERS["ours"] = {operator.__name__: operator for operator in OURS}
