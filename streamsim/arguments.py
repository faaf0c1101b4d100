"""The door of the public functions: what is wrong with an argument is an InputError that names the argument.

A function does not look at the types of its arguments: that would take time at each call. Only if a call fails, the
arguments are compared with the annotations. If one does not fit, that is the error; if all fit, the fault is ours.
"""

import ast
import builtins
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import wraps
from importlib import import_module
from inspect import getsource, signature
from typing import Any, get_args, get_origin

from streamsim.errors import InputError

LONGEST = 60  # of a value in a message


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` with errors that name the argument.

    It takes the place of ``function`` in its module, where pickle looks for it.
    """

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except (InputError, OSError, MemoryError):
            raise
        except Exception as error:
            mistake = _mistake(function, arguments, named)
            if mistake:
                raise InputError(mistake) from error
            raise

    setattr(sys.modules[function.__module__], function.__name__, call)
    return call


def _mistake(function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> str:
    """Say which argument is of another type than its annotation, the first of them; ``""``: none is."""
    parameters = signature(function)
    try:
        given = parameters.bind(*arguments, **named).arguments
    except TypeError:  # too many arguments or too few, which Python has said
        return ""
    kinds = _kinds(function)
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
    """The names of annotations. A name that cannot be imported here stands for any type."""

    def __missing__(self, name: str) -> Any:
        return Any


def _kinds(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the type of each argument by its name; nothing where the types cannot be known here."""
    names = _Names({**vars(builtins), **imported_for_checkers(function.__module__), **function.__globals__})
    try:
        return typing.get_type_hints(function, localns=names)
    except Exception:  # such as np.ndarray[...] where NumPy is not installed
        return {}


def imported_for_checkers(module: str) -> dict[str, Any]:
    """Return what a module imports for type checkers only, as far as it can be imported."""
    names: dict[str, Any] = {}
    for block in ast.parse(getsource(sys.modules[module])).body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for line in block.body:
                with suppress(ImportError):
                    names |= _imported(line)
    return names


def _imported(line: ast.stmt) -> dict[str, Any]:
    if isinstance(line, ast.Import):
        return {name.asname or name.name: import_module(name.name) for name in line.names}
    if isinstance(line, ast.ImportFrom) and line.module:
        room = import_module(line.module)
        return {name.asname or name.name: getattr(room, name.name, Any) for name in line.names}
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
