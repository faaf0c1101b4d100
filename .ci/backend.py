"""Setuptools as the build backend, with an sdist that holds what the tests need.

Setuptools reads the list of such files from a ``MANIFEST.in`` at the top of the project. It is there only while an
sdist is built.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403 - all other hooks are those of setuptools

MANIFEST = """\
graft tests
graft figures
graft docs
graft validate/campaigns
graft .github
graft .ci
include CHANGELOG.md CITATION.cff SECURITY.md
global-exclude __pycache__ *.pyc
"""


def build_sdist(sdist_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    """Build the sdist with the files that ``MANIFEST`` names. Return its name."""
    path = Path("MANIFEST.in")
    path.write_text(MANIFEST)
    try:
        return build_meta.build_sdist(sdist_directory, config_settings)
    finally:
        path.unlink()
