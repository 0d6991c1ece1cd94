"""Errors that are the input's fault, not the program's.

The command line prints these as a few plain lines and exits with code 2; every other exception is a
bug and keeps its traceback. Each is a ``ValueError``, so library users need not know these names.
"""


class InputError(ValueError):
    """An argument, file or option is not as expected; the message says which, and how to fix it."""


class DatasetNotFoundError(InputError):
    """No source had the data set; the message lists what was tried and where to put which file."""


class DatasetIntegrityError(InputError):
    """A file is not the one that was published: its hash or its counts differ."""


class CheckpointError(InputError):
    """A checkpoint is missing, damaged, or does not fit the data it is asked to work on."""
