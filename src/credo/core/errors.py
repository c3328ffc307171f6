"""What can go wrong, said in a sentence: what, found, remedy.

Every exception credo raises on purpose derives from `CredoError`, so `except credo.errors.CredoError`
catches credo's own refusals and nothing else.
"""


class CredoError(Exception):
    """The base of credo's exceptions."""


class DataError(CredoError, ValueError):
    """The data or an argument cannot be used as given; the message names it, what was found and the remedy."""


class NotPositiveDefinite(CredoError, ArithmeticError):
    """A matrix that must be a covariance or a precision is not positive definite."""


class NotConverged(CredoError, RuntimeError):
    """An iterative method did not reach its tolerance and its answer must not be used."""


class NotMonotone(CredoError, RuntimeError):
    """A step that cannot lower its objective lowered it: a bug in the model, whose answer must not be used."""


class NotConvergedWarning(UserWarning):
    """An iterative method stopped early, or at a bound: its answer is usable but deserves a look."""


class MisfitWarning(UserWarning):
    """The data contradict numbers that were given, or left as they are by default: the doubt stated is too small."""


class NoveltyWarning(UserWarning):
    """A belief was asked about an input like none that it has seen: what it says of it is extrapolation."""


class RepairedWarning(UserWarning):
    """Something that could not be used as given was changed as little as possible; the message says by how much."""


class FileError(CredoError, OSError):
    """A file is missing, damaged, tampered with, foreign, or written by a newer credo."""
