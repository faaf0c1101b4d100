"""What input can lead to: the one error that bad input raises, and a notice of what was read all the same.

The commands turn either into one line.
"""


class InputError(ValueError):
    """Bad input: a file, an argument or a schedule. The message names the offending thing and the remedy."""


class Notice(UserWarning):
    """Input was read, but not all of it counts. The message names the place and what was left out."""


class NoRoomError(InputError):
    """What is asked for needs more memory than the card has."""
