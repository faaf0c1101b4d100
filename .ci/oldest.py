"""Print the oldest versions that pyproject.toml declares, for pip: what streamsim needs and its optional parts."""

import re
import tomllib
from pathlib import Path

OPTIONAL = ("fast", "dask", "calibrate")

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
needed = [*project["dependencies"], *(line for part in OPTIONAL for line in project["optional-dependencies"][part])]
for line in needed:
    oldest = re.fullmatch(r"([A-Za-z0-9_.-]+)>=([0-9.]+)(,<.*)?", line)
    if oldest is None:
        raise SystemExit(f"{line}: expected a name and the oldest version, as in numpy>=2.0")
    print(f"{oldest[1]}=={oldest[2]}")
