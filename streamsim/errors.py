"""The one error that bad input raises, so that the command can turn it into one line."""


class InputError(ValueError):
    """Bad input: a file, an argument or a schedule. The message names the offending thing and the remedy."""


class NoRoomError(InputError):
    """What is asked for needs more memory than the card has."""
