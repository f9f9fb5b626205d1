"""Off-policy variance estimation with guarantees, for Gymnasium and stable-baselines3.

Names are loaded on first use, so that importing the package is quick and the statistical core needs
neither torch nor stable-baselines3. ``__init__.pyi`` is the one list of public names.
"""

import lazy_loader

__version__ = "0.2.0.dev0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
