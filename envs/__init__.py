"""Bundled Gymnasium environments; installed as ``ove_sb3.envs``."""
