"""Every benchmark, one table after another: ``python tests/benchmarks``, with the options of ``bench_sweep.py``."""

import platform
from datetime import UTC, datetime
from importlib import import_module

NAMES = ("bench_model", "bench_compiled", "bench_large", "bench_sweep", "bench_best", "bench_offload", "bench_page")


def main() -> None:
    """Say when and on what, then run them all."""
    machine = f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}"
    print(f"{datetime.now(UTC):%Y-%m-%d}, {machine}")
    for name in NAMES:
        try:
            benchmark = import_module(name)
        except ModuleNotFoundError as missing:
            print(f"\n{name}: {missing.name} is not installed; pip install '.[fast]'")
            continue
        print(f"\n{str(benchmark.__doc__).splitlines()[0]}\n", flush=True)
        benchmark.main()


if __name__ == "__main__":
    main()
