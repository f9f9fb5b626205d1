"""Units of time and insulin."""

MINUTES = 1440  # per day
U_TO_PMOL = 6000.0  # pmol of insulin per unit (U)
