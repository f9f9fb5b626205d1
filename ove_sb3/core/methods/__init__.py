"""Methods for confidence intervals: a registry, and one file each."""

from .base import Method, MethodInputs, Tails, as_method, method_names, register_method
from .betting import Betting
from .bootstrap import Bootstrap
from .concentration import Concentration
from .normal import Normal

register_method("betting", Betting)
register_method("paper", Concentration)
register_method("bootstrap", Bootstrap)
register_method("normal", Normal)

__all__ = [
    "Betting",
    "Bootstrap",
    "Concentration",
    "Method",
    "MethodInputs",
    "Normal",
    "Tails",
    "as_method",
    "method_names",
    "register_method",
]
