"""What input can lead to: the one error that bad input raises, and a notice of what was read all the same.

The commands of both programs turn either into one line, and end with one of the exit codes that stand here.
``install`` is the remedy for a missing extra.
"""

from streamsim.lines import one_line

OK = 0
FOUND = 1  # a check found something, or a tolerance failed
BAD_INPUT = 2  # or usage
NO_GPU = 3  # none that can be used
UNEXPECTED = 70  # an error that nobody expected: EX_SOFTWARE of sysexits.h
INTERRUPTED = 130  # as shells say it: 128 and the number of the signal


class InputError(ValueError):
    """Bad input: a file, an argument or a schedule.

    The message names the offending thing and the remedy, on one line whatever the input holds.
    """

    exit_code = BAD_INPUT

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class Notice(UserWarning):
    """Input was read, but not all of it counts. The message names the place and what was left out."""


class NoRoomError(InputError):
    """What is asked for needs more memory than the card has."""


def install(extra: str) -> str:
    """Return the command that installs an extra of this package, such as ``fast``."""
    return f"pip install '.[{extra}]' in streamsim's folder"
