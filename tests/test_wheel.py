"""The wheel that people install."""

import importlib.util
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def _needs() -> str:
    """Why no wheel can be built here, or nothing."""
    if importlib.util.find_spec("setuptools") is None:
        return "setuptools is not installed, and building must not download it"
    from importlib.metadata import version

    if int(version("setuptools").split(".")[0]) < 77:
        return f"pyproject.toml asks for setuptools 77 and {version('setuptools')} is installed"
    return (
        "" if importlib.util.find_spec("build") or importlib.util.find_spec("pip") else "neither build nor pip is there"
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    if reason := _needs():
        pytest.skip(reason)
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    tracked = ("pyproject.toml", "README.md", "LICENSE", "streamsim", "validate")
    _copy([ROOT / name for name in tracked if (ROOT / name).exists()], source)  # building leaves build/ behind
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-build-isolation",
        "--no-deps",
        "--no-index",
        "-w",
        out,
        source,
    ]
    if importlib.util.find_spec("build"):
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", out, source]
    built = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    (path,) = out.glob("*.whl")
    return zipfile.ZipFile(path)


def _copy(paths: list[Path], target: Path) -> None:
    import shutil

    for path in paths:
        if path.is_dir():
            shutil.copytree(path, target / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, target)


def test_two_packages_and_no_top_level_validate(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"streamsim", "streamsim_validate"}


def test_every_source_file_is_in_it(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    for folder, package in (("streamsim", "streamsim"), ("validate", "streamsim_validate")):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".toml", ".html", ".css", ".js") or path.name == "py.typed":
                assert f"{package}/{path.relative_to(ROOT / folder).as_posix()}" in names


def test_it_is_typed_and_brings_the_devices(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    assert {"streamsim/py.typed", "streamsim_validate/py.typed"} <= names
    assert "streamsim/device/profiles/h200.toml" in names
    assert not any(name.startswith("tests/") or "__pycache__" in name for name in names)


def test_commands_and_dependences(wheel: zipfile.ZipFile) -> None:
    (folder,) = {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
    scripts = wheel.read(f"{folder}/entry_points.txt").decode()
    assert "streamsim = streamsim.__main__:main" in scripts
    assert "\nvalidate =" not in scripts
    metadata = Parser().parsestr(wheel.read(f"{folder}/METADATA").decode())
    needed = [line for line in metadata.get_all("Requires-Dist") or [] if "extra ==" not in line]
    assert not any(line.startswith(("cupy", "cupti", "typer")) for line in needed)
    assert any(line.startswith("simpy") for line in needed)
