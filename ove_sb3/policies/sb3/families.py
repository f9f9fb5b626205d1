"""All families of models: importing this module registers their adapters."""

from __future__ import annotations

from . import actor_critic, ars, dqn, recurrent, sac, td3

__all__ = ["actor_critic", "ars", "dqn", "recurrent", "sac", "td3"]
