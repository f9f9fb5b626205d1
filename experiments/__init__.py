"""The paper's experiments; installed as ``ove_sb3.experiments``."""
