"""How the time of one workload depends on chunks, streams and issue order; the fastest of each order is starred.

64 MiB to the card, a kernel of 0.57 ms, 64 MiB back, on the shipped h200 profile: every number of chunks that is a
power of two or halfway between two, with every number of streams up to 16. Runs the command of docs/choose.md, which
writes best.png; here it stands beside this file.
"""

from command import make

COMMAND = (
    "sweep --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 1,2,3,4,6,8,12,16,24,32,48,64,96,128 --streams 1..16"
    " --order depth-first,breadth-first -o map.csv --plot best.png"
)

if __name__ == "__main__":
    make(COMMAND)
