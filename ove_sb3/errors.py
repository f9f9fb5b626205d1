"""Errors and warnings. Every error of this package derives from `OveError`."""


class OveError(Exception):
    """Base class of all errors raised by ove_sb3."""


class InvalidInputError(OveError, ValueError):
    """An argument breaks a rule; the message names argument, rule, value, place and remedy."""


class AssumptionError(InvalidInputError):
    """The data contradict an assumption the caller stated, such as ``reward_range``."""


class MeanWeightError(AssumptionError):
    """Importance weights are more than 1 on average, beyond doubt: some probability is wrong."""


class WeightOverflowError(OveError, OverflowError):
    """An importance weight, or a statistic built on it, is too large to compute with."""


class UnsupportedPolicyError(OveError, NotImplementedError):
    """The probability of an action under this policy is not known exactly."""


class StorageError(OveError, OSError):
    """Logged files are missing, damaged, or of another version; the message names the file."""


class EmptyLogError(StorageError):
    """A log directory holds no complete episode yet."""


class WorkerError(OveError, RuntimeError):
    """Processes that share the work keep dying."""


class OveWarning(UserWarning):
    """Base class of all warnings issued by ove_sb3."""


class SupportWarning(OveWarning):
    """The logged data carry no information about the candidate."""


class DependenceWarning(OveWarning):
    """Logged episodes, or the candidate and the log, are not independent as intervals assume."""
