"""Files of profilers that cannot be read: what they are, and what to record instead."""

import os
import re

RECORD_NSYS = "record with: nsys profile --trace=cuda,nvtx PROGRAM; then nsys export --type sqlite FILE.nsys-rep"
RECORD_TORCH = "of AMD's cards, traces of PyTorch's profiler are read: ProfilerActivity.CPU and ProfilerActivity.CUDA"
NVPROF = f"is a profile of nvprof or the Visual Profiler; {RECORD_NSYS}"
ROCPROF = f"is a file of rocprof; {RECORD_TORCH}"
XPLANE = f"is a profile of JAX or TensorFlow (XPlane); {RECORD_NSYS}"
# Endings of names, patterns of the content, and words for the file.
FOREIGN = (
    ((".nvvp", ".nvprof"), rb"\bStringTable\b", NVPROF),
    ((".pftrace", ".rocpd"), rb'"rocprofiler-sdk-tool"|\brocpd_|\bHIP API\b', ROCPROF),
    ((), rb'\A"?(?:Kind|Domain|Index|Name|Dispatch_ID)"?,"?(?:Agent_Id|Function|KernelName|Calls|GPU_ID)', ROCPROF),
    ((".xplane.pb",), rb"/(?:host|device):\w", XPLANE),
)
ENDINGS = tuple(ending for endings, _, _ in FOREIGN for ending in endings)


def foreign(path: str | os.PathLike[str], content: bytes) -> str:
    """Return what a file of another profiler is, and what to record instead; "" for any other file.

    ``content``: the beginning of the file, or the names of its tables or processes, one a line.
    """
    name = str(path).lower()
    shown = next((words for _, pattern, words in FOREIGN if re.search(pattern, content)), "")
    return shown or next((words for endings, _, words in FOREIGN if name.endswith(endings)), "")
