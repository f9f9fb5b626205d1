"""Files of models and of normalization statistics: the only pickles that are ever read."""

from __future__ import annotations

import pickle
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from ove_sb3._validation import check_flag
from ove_sb3.data.metadata import Metadata, make_space
from ove_sb3.errors import InvalidInputError

_PICKLE = (
    "Loading a model file executes pickled code in it: load only files you trust, or pass "
    "safe_load=True."
)
_SPACES = ("observation_space", "action_space")


def load_model(
    path: str | PathLike[str],
    model_class: Any,
    name: str = "candidate",
    *,
    safe_for: Metadata | Literal[False] = False,
) -> Any:
    """Load a model that stable-baselines3 saved; its class must be named.

    This unpickles, and so executes code of the file, unless `safe_for` gives the metadata of the
    log, whose spaces are then those of the model: see `ove_sb3.safe_load_model`.
    """
    if model_class is None:
        raise InvalidInputError(
            f"`model_class` must be given when `{name}` is a path, got None for {path}. Pass the "
            f"class that saved it, such as stable_baselines3.PPO. {_PICKLE}"
        )
    if not callable(getattr(model_class, "load", None)):
        raise InvalidInputError(
            f"`model_class` must be a class with a `load` method, got {model_class!r}. Pass the "
            "class that saved the model, such as stable_baselines3.PPO."
        )
    file = Path(path)
    if not file.is_file() and not file.with_name(f"{file.name}.zip").is_file():
        raise InvalidInputError(
            f"`{name}` must be the path of a saved model, but {file} does not exist. Check the "
            "path, or save the model with model.save(...)."
        )
    if safe_for:
        return _load_safely(file, model_class, safe_for)
    try:
        return model_class.load(file, device="cpu")
    except Exception as error:  # unpickling can raise anything
        raise InvalidInputError(
            f"`{name}` must be a model saved by {getattr(model_class, '__name__', model_class)}, "
            f"but {file} cannot be loaded as one: {type(error).__name__}: {error}. Pass the class "
            "that saved it as `model_class`."
        ) from error


def _load_safely(file: Path, model_class: Any, metadata: Metadata) -> Any:
    from ove_sb3.policies.sb3.safe_load import safe_load_model

    spaces = [getattr(metadata, name) for name in _SPACES]
    for name, space in zip(_SPACES, spaces, strict=True):
        if space is None:
            raise InvalidInputError(
                f"`safe_load` must be False for a log that does not state its {name}, which a "
                "model is then built from. Pass ove_sb3.safe_load_model(path, model_class, "
                "observation_space, action_space) in place of the path."
            )
    return safe_load_model(file, model_class, *map(make_space, spaces))


def normalizer_of(model: Path) -> Path | None:
    """The statistics of VecNormalize that belong to a model, None without a file of a known name.

    Known are the names that `CheckpointCallback` and `OffPolicyVarianceCallback` give, and
    ``vecnormalize.pkl``.
    """
    prefix, _, steps = model.stem.removesuffix("_steps").rpartition("_")
    names = [f"{model.stem}_vecnormalize.pkl", "vecnormalize.pkl"]
    if steps.isdecimal():
        names.insert(0, f"{prefix}_vecnormalize_{steps}_steps.pkl")
    files = (model.parent / name for name in names)
    return next((file for file in files if file.is_file()), None)


def check_normalizer(vec_normalize: Any, model: Any) -> None:
    """Refuse a model file beside statistics of VecNormalize, unless these are given or declined."""
    if vec_normalize is not None or not isinstance(model, (str, PathLike)):
        return
    path = Path(model)
    patterns = ("*vecnormalize*.pkl", "*/vecnormalize.pkl")  # the second is that of rl_zoo3
    others = (file for pattern in patterns for file in sorted(path.parent.glob(pattern)))
    file = normalizer_of(path) or next(others, None)
    if file is not None:
        raise InvalidInputError(
            f"`vec_normalize` must be given for {path}, because {file} is there: if the model was "
            "trained with these statistics, it gets other observations without them. Pass "
            f"vec_normalize='{file}', or vec_normalize='none' if it was trained without."
        )


def load_normalizer(vec_normalize: Any, *, safe: bool = False) -> Any:
    """Load statistics saved by VecNormalize; pass on anything else, and None for ``"none"``.

    This unpickles, and so executes code of the file. If `safe`, a path is refused.
    """
    if not isinstance(vec_normalize, (str, PathLike)):
        return vec_normalize
    if str(vec_normalize) == "none":
        return None
    if safe:
        raise InvalidInputError(
            f"`vec_normalize` must not be a path with safe_load=True, got {vec_normalize}: the "
            "file is a pickle. Pass the VecNormalize itself, if you trust the file: "
            "VecNormalize.load(path, venv)."
        )
    from stable_baselines3.common.vec_env import VecNormalize

    try:
        normalizer = pickle.loads(Path(vec_normalize).read_bytes())
    except Exception as error:  # unpickling can raise anything
        raise InvalidInputError(
            f"`vec_normalize` must be a file written by VecNormalize.save, but {vec_normalize} "
            f"cannot be read as one: {type(error).__name__}: {error}."
        ) from error
    if not isinstance(normalizer, VecNormalize):
        raise InvalidInputError(
            f"`vec_normalize` must be a file written by VecNormalize.save, got a "
            f"{type(normalizer).__name__} in {vec_normalize}."
        )
    return normalizer


def check_safe_load(safe_load: bool, *models: Any) -> None:
    """Refuse `safe_load` where no model is loaded from a file."""
    if check_flag(safe_load, "safe_load") and not any(
        isinstance(model, (str, PathLike)) for model in models
    ):
        raise InvalidInputError(
            "`safe_load` must be left out when no model is given as a path. It would change "
            "nothing: a model that is loaded already has been unpickled."
        )
