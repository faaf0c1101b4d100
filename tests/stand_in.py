"""A card for commands that start processes: a folder for PYTHONPATH, in which every Python finds the emulated one."""

import os
from pathlib import Path

TESTS = Path(__file__).parent
FEW, WAIT_S = 3, 0.003  # schedules to a group, a measured run: so that there is a middle to stop it in
SITE = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
import contextlib, time
import streamsim_validate.run.campaign, streamsim_validate.run.measuring
from fake_gpu.cuda import fake_gpu

@contextlib.contextmanager
def open_gpu(device=0):
    gpu, cuda = fake_gpu()
    cuda.fail_at = lambda name, arguments: time.sleep({WAIT_S} * (name == "eventElapsedTime"))
    yield gpu

streamsim_validate.run.campaign.hardware.open_gpu = open_gpu
streamsim_validate.run.measuring.GROUP_SIZE = {FEW}
streamsim_validate.run.campaign.hardware.import_cupy = lambda: None
"""


def environment(folder: Path) -> dict[str, str]:
    """In which Python finds that card, and writes no code files: not where a test limits the size of files."""
    (folder / "sitecustomize.py").write_text(SITE)
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    return os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
