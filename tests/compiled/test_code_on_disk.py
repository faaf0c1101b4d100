"""Compiled code that is kept on disk holds as long as all that it is made of, not only the file of one function."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import streamsim
from streamsim.compiled import available

compiled = pytest.mark.skipif(not available(), reason="numba is not installed")
USES_A_RULE = """
from streamsim.compiled.loop import compiled, rule
from streamsim.rules import level

level = rule(level)

@compiled
def crowded(sources):
    def crowded(waiting, queues):
        _ = sources
        return level(waiting, queues)
    return crowded

print(crowded(3, 4), sum(crowded.stats.cache_hits.values()))
"""


@compiled
def test_code_on_disk_is_used_until_a_rule_is_edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "streamsim"
    shutil.copytree(Path(streamsim.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    script, rule = tmp_path / "script.py", package / "rules" / "__init__.py"
    script.write_text(USES_A_RULE)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))

    def level_and_hits() -> str:
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)  # finds the copy
        return done.stdout.strip()

    assert [level_and_hits() for _ in range(2)] == ["2 0", "2 1"]
    rule.write_text(rule.read_text().replace("CROWD) - 1", "CROWD) - 2"))
    assert level_and_hits() == "1 0"
