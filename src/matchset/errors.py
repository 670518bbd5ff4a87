"""Errors: what can be wrong with what a user gave us?"""


class DataError(ValueError):
    """A log or catalogue breaks a rule; the message names file, column and row if there are any."""


class ModelFileError(ValueError):
    """A saved file is missing, damaged, of another kind or too new; the message names the file."""
