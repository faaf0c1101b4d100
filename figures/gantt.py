"""The README's picture: one pipeline unchunked and in 16 chunks over 4 streams, on one time axis.

64 MiB to the card, a kernel of 0.57 ms, 64 MiB back, predicted for the shipped h200 profile. Runs the command of
docs/predict.md, which writes gantt.png; here it stands beside this file.
"""

from command import make

COMMAND = "predict --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 --device h200 --plot gantt.png"

if __name__ == "__main__":
    make(COMMAND)
