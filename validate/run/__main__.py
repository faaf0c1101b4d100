"""A measuring process: ``python -m streamsim_validate.run CONNECTIONS``."""

import sys

from streamsim_validate.run.campaign import main

if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
