"""Why a pipeline issued breadth-first is slow: the lost time by cause, and the same work after the first remedy.

64 MiB to the card, a kernel of 0.57 ms, 64 MiB back, in 16 chunks over 4 streams on the shipped h200 profile. Above
is the time line with where the time goes; below, on the same time axis, the same chunks issued
depth-first. Runs the command of docs/explain.md, which writes explain.png; here it stands beside this file.
"""

from command import make

COMMAND = (
    "explain --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 --order breadth-first --plot explain.png"
)

if __name__ == "__main__":
    make(COMMAND)
