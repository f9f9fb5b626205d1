"""Which quantities are evaluated: those asked for, and the defaults that the methods know."""

from __future__ import annotations

from collections.abc import Sequence

from ove_sb3.core.methods import Method
from ove_sb3.core.quantities import DEFAULT_QUANTITIES, Quantity, as_quantities


def supported_quantities(
    quantities: object, method: Method
) -> tuple[tuple[Quantity, ...], tuple[str, ...]]:
    """The quantities without the defaults that `method` has no bounds for, and a remark on these.

    A quantity that is asked for is never left out: the method refuses it, and says why. So it does
    if it has bounds for none.
    """
    asked = as_quantities(quantities)
    left_out = [q for q in asked if is_default(q) and not method.supports(q)]
    if not left_out or len(left_out) == len(asked):
        return asked, ()
    names = {quantity.name for quantity in left_out}
    kept = tuple(quantity for quantity in asked if quantity.name not in names)
    labels = _enumerated([quantity.label for quantity in left_out])
    remark = (
        f"not shown: {labels}, for which method={method.name!r} has no bounds. Choose another "
        "method for them."
    )
    return kept, (remark,)


def check_known_to(method: Method, quantities: Sequence[Quantity]) -> None:
    """Refuse an estimator of a method that a quantity asked for, or every quantity, lacks."""
    some = [q for q in quantities if q.has_estimator(method.estimator)]
    for quantity in quantities:
        if not (some and is_default(quantity)):
            quantity.find_estimator(method.estimator)


def is_default(quantity: Quantity) -> bool:
    """Whether it is one of `DEFAULT_QUANTITIES` itself, not its equal that was asked for."""
    return any(quantity is default for default in DEFAULT_QUANTITIES)


def _enumerated(labels: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(labels[:-1]), labels[-1]]))
