"""The wheel that people install, and the sdist that others test."""

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.ci

ROOT = Path(__file__).parents[2]


def _needs() -> str:
    """Why none can be built here, or nothing: building must not download setuptools."""
    if importlib.util.find_spec("setuptools") is None:
        return "setuptools is not installed"
    version = importlib.metadata.version("setuptools")
    return "" if int(version.split(".")[0]) >= 77 else f"pyproject.toml asks for setuptools 77 and {version} is there"


PACKAGES = ("pyproject.toml", "README.md", "LICENSE", "streamsim", "validate", ".ci")
TESTED = ("tests", "figures", "docs", ".github", "CHANGELOG.md", "CITATION.cff", "SECURITY.md")
MOST_BYTES = 1_000_000


def _built(kind: str, names: tuple[str, ...], factory: pytest.TempPathFactory) -> Path:
    """A wheel or an sdist, built from a copy: building leaves build/ behind."""
    if reason := _needs():
        pytest.skip(reason)
    source, out = factory.mktemp("source"), factory.mktemp(kind)
    _copy([ROOT / name for name in names if (ROOT / name).exists()], source)
    backend = f"import os; os.chdir({str(source)!r}); import backend; backend.build_{kind}({str(out)!r})"
    environment = os.environ | {"PYTHONPATH": str(source / ".ci")}
    built = subprocess.run(
        [sys.executable, "-c", backend], env=environment, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    (path,) = out.iterdir()
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return zipfile.ZipFile(_built("wheel", PACKAGES, tmp_path_factory))


def _copy(paths: list[Path], target: Path) -> None:
    import shutil

    for path in paths:
        if path.is_dir():
            unwanted = shutil.ignore_patterns("__pycache__", "build")
            shutil.copytree(path, target / path.name, symlinks=True, ignore=unwanted)
        else:
            shutil.copy(path, target)


def test_it_has_two_packages_every_source_file_and_no_records(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"streamsim", "streamsim_validate"}
    for folder, package in (("streamsim", "streamsim"), ("validate", "streamsim_validate")):
        for path in (ROOT / folder).rglob("*"):
            if "campaigns" not in path.parts and path.suffix in (".py", ".toml", ".html", ".css", ".js", ".typed"):
                assert f"{package}/{path.relative_to(ROOT / folder).as_posix()}" in names
    assert not any(
        name.endswith((".gz", ".zip")) or {"campaigns", "__pycache__"} & {*name.split("/")} for name in names
    )
    assert sum(one.compress_size for one in wheel.infolist()) < MOST_BYTES


@pytest.mark.parametrize(
    ("module", "arguments", "says"),
    [
        ("streamsim", "predict --h2d 1MiB --kernel 20us --d2h 1MiB --chunks 2 --streams 2 --device h200", "unchunked"),
        ("streamsim_validate", "run --help", "--suite"),
    ],
)
def test_its_modules_run_by_themselves(
    wheel: zipfile.ZipFile, tmp_path: Path, module: str, arguments: str, says: str
) -> None:
    """Unpacked and nothing else of the project beside it."""
    wheel.extractall(tmp_path / "alone")
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "alone")}
    command = [sys.executable, "-P", "-m", module, *arguments.split()]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert says in done.stdout


def test_the_sdist_holds_what_its_tests_need(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = _built("sdist", (*PACKAGES, *TESTED), tmp_path_factory)
    with tarfile.open(path) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    for folder in ("streamsim", "validate", "tests", "figures", "docs", ".github"):
        for file in (ROOT / folder).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                assert file.relative_to(ROOT).as_posix() in names
    assert ".ci/run" in names
