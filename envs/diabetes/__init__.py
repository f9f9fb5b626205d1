"""Insulin dosing for type 1 diabetes, one day per episode."""

from .env import PUBLIC_CODE, DiabetesEnv

__all__ = ["PUBLIC_CODE", "DiabetesEnv"]
