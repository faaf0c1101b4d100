"""Libraries that the browser lacks: their modules can be imported, and what they hold can stand in annotations.

The playground's page imports this file before streamsim, which imports these libraries for things that a page never
asks for: arrays of recordings, tables in a terminal, writing profiles.
"""

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

LIBRARIES = ("numpy", "rich", "tomli_w")


class Absent(ModuleType):
    """A module, class or value of a library that is not there. Whatever is asked of it is absent, too."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, _: object) -> "Absent":
        return self

    def __call__(self, *_: object, **__: object) -> "Absent":
        return self

    def __or__(self, _: object) -> "Absent":
        return self

    def __mro_entries__(self, _: tuple[type, ...]) -> tuple[type, ...]:
        return ()


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname.partition(".")[0] in LIBRARIES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Absent(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: there is no code to run."""


sys.meta_path.append(_Finder())
