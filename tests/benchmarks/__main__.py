"""Benchmarks, one table after another: ``python tests/benchmarks`` runs all of them.

``python tests/benchmarks bench_model bench_compiled bench_sweep`` runs these three, whose figures docs/speed.md shows.
``--all``: see ``bench_sweep.py``.
"""

import platform
import sys
from datetime import UTC, datetime
from importlib import import_module

NAMES = ("bench_model", "bench_compiled", "bench_large", "bench_sweep", "bench_best", "bench_offload", "bench_page")


def main() -> None:
    """Say when and on what, then run them."""
    machine = f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}"
    print(f"{datetime.now(UTC):%Y-%m-%d}, {machine}")
    for name in [name for name in NAMES if name in sys.argv] or NAMES:
        try:
            benchmark = import_module(name)
        except ModuleNotFoundError as missing:
            print(f"\n{name}: {missing.name} is not installed; pip install '.[fast]'")
            continue
        print(f"\n{str(benchmark.__doc__).splitlines()[0]}\n", flush=True)
        benchmark.main()


if __name__ == "__main__":
    main()
