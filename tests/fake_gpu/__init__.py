"""One card that is not there, and its faces: CUDA's runtime, array libraries (CuPy, PyTorch) and CUPTI.

``card`` has its clock, streams, events, graphs and the record of calls; the faces only translate.
"""
