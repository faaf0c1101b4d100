"""Print the lines of code of each room, and exit with 1 if a room is above its ceiling.

The ceilings stand in the table of ``.github/CONTRIBUTING.md``, in steps of 10; ``python .ci/size.py --write`` sets them
to what there is. Blank lines, comments and docstrings do not count.
"""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / ".github" / "CONTRIBUTING.md"
COMMENTS = {".py": "#", ".js": "//", ".cu": "//", ".html": "<!--"}  # how they begin in files of code
TOPS = ("streamsim", "validate", "tests", "figures", ".ci")
ROW = re.compile(r"^\| (?P<room>[\w./]+) \| (?P<ceiling>\d+) \|$", re.MULTILINE)


def lines_of(path: Path) -> int:
    """The lines of a file that are code."""
    text = path.read_text(encoding="utf-8")
    comment, documented = COMMENTS.get(path.suffix, "#"), set[int]()
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            may_have = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            if may_have and ast.get_docstring(node, clean=False) is not None:
                first = node.body[0]
                documented.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return sum(bool(line) and not line.startswith(comment) and number not in documented for number, line in lines)


def sizes() -> Counter[str]:
    """Lines by room: a folder of a package or of the tests, and what lies beside them."""
    found: Counter[str] = Counter()
    for name in subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines():
        top, *inside = name.split("/")
        if top in TOPS and (Path(name).suffix in COMMENTS or name == ".ci/run") and not (ROOT / name).is_symlink():
            found["/".join((top, *inside[:-1][:1]))] += lines_of(ROOT / name)
    return found


def main() -> int:
    """Compare, or write the table anew."""
    found, page = sizes(), PAGE.read_text(encoding="utf-8")
    if "--write" in sys.argv:
        first, *_, last = ROW.finditer(page)
        rows = "\n".join(f"| {room} | {-(-lines // 10) * 10} |" for room, lines in sorted(found.items()))
        PAGE.write_text(page[: first.start()] + rows + page[last.end() :], encoding="utf-8")
        return 0
    ceilings = {row["room"]: int(row["ceiling"]) for row in ROW.finditer(page)}
    for room, lines in sorted(found.items()):
        over = "   above its ceiling" if lines > ceilings.get(room, 0) else ""
        print(f"{room:24}{lines:7}{ceilings.get(room, 0):7}{over}")
    for top in TOPS:
        print(f"{top:24}{sum(lines for room, lines in found.items() if room.split('/')[0] == top):7} in all")
    if gone := sorted(ceilings.keys() - found.keys()):
        print(f"no such room: {', '.join(gone)}")
    return int(bool(gone) or any(lines > ceilings.get(room, 0) for room, lines in found.items()))


if __name__ == "__main__":
    sys.exit(main())
