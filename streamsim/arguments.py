"""The door of the public functions: what is wrong with an argument is an InputError that names the argument.

A function does not look at the types of its arguments: that would take time at each call. Only if a call fails, the
arguments are compared with the annotations. If one does not fit, that is the error; if all fit, the fault is ours.
"""

import builtins
import collections.abc
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import signature
from typing import Any, get_args, get_origin

from streamsim.errors import InputError

LONGEST = 60  # of a value in a message


def checked(function: Callable[..., Any], public: Callable[[str], Any]) -> Callable[..., Any]:
    """Return ``function`` with errors that name the argument. ``public`` finds a name of the public interface.

    It takes the place of ``function`` in its module, where pickle looks for it.
    """

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except (InputError, OSError, MemoryError):
            raise
        except Exception as error:
            mistake = _mistake(function, arguments, named, public)
            if mistake:
                raise InputError(mistake) from error
            raise

    setattr(sys.modules[function.__module__], function.__name__, call)
    return call


def _mistake(
    function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any], public: Callable[[str], Any]
) -> str:
    """Say which argument is of another type than its annotation, the first of them; ``""``: none is."""
    parameters = signature(function)
    try:
        given = parameters.bind(*arguments, **named).arguments
    except TypeError:  # too many arguments or too few, which Python has said
        return ""
    kinds = _kinds(function, public)
    for name, value in given.items():
        parameter = parameters.parameters[name]
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if not fits(value, kinds.get(name, Any)):
            return f"{name} = {value!r:.{LONGEST}}: expected {_words(parameter.annotation)}"
    return ""


def _words(annotation: object) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return str(text).strip("\"'")


class _Names(dict[str, Any]):
    """The names of annotations, many of which are imported for type checkers alone."""

    def __init__(self, known: Mapping[str, Any], public: Callable[[str], Any]) -> None:
        super().__init__({**vars(builtins), **vars(typing), **vars(collections.abc), "os": os, **known})
        self._public = public

    def __missing__(self, name: str) -> Any:
        try:
            return self._public(name)
        except AttributeError:
            if name == "Path":
                from pathlib import Path

                return Path
            return Any  # not known here: anything fits


def _kinds(function: Callable[..., Any], public: Callable[[str], Any]) -> dict[str, Any]:
    """Return what each argument may be, by its name; nothing where that is not known here."""
    try:
        return typing.get_type_hints(function, localns=_Names(function.__globals__, public))
    except Exception:  # such as np.ndarray[...] where NumPy is imported for type checkers alone
        return {}


def fits(value: object, kind: Any) -> bool:
    """Tell whether ``value`` is of the annotated ``kind``; where that is not known, it is."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is None or kind is type(None):
        return value is None
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, one) for one in arguments)
    if origin is typing.Literal:
        return value in arguments
    if kind is float:
        return isinstance(value, int | float)
    whole = origin or kind
    if whole is os.PathLike:
        return hasattr(value, "__fspath__")
    if not isinstance(whole, type):
        return True
    try:
        if not isinstance(value, whole) or (arguments and isinstance(value, str | bytes)):
            return False
    except TypeError:  # a protocol that cannot be asked
        return True
    return all(fits(item, arguments[-1]) for item in _items(value, arguments))


def _items(value: object, arguments: tuple[Any, ...]) -> Iterable[object]:
    """What must be of the last kind in the brackets: the values of a table, the items of a list of any length."""
    if isinstance(value, Mapping):
        return value.values() if len(arguments) == 2 else value if arguments else ()
    if isinstance(value, tuple) and len(arguments) == 2 and arguments[1] is ...:
        return ()
    return value if isinstance(value, list | tuple | set | frozenset) and len(arguments) == 1 else ()
