"""Loading a saved stable-baselines3 model without unpickling anything.

The weights are read by ``torch.load(weights_only=True)``. Of the rest of the file only plain JSON
is read, which ``model.save`` writes beside every pickled entry. Classes are named there, and only
names of the lists below are accepted.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.noise import ActionNoise
from stable_baselines3.common.preprocessing import is_image_space, is_image_space_channels_first
from stable_baselines3.common.torch_layers import CombinedExtractor, FlattenExtractor, NatureCNN
from stable_baselines3.common.vec_env import VecTransposeImage

from ove_sb3.errors import InvalidInputError
from ove_sb3.policies.provenance import SELECTED_BY, TRAINED_ON

_PICKLED = ":serialized:"
_ACTIVATIONS = (
    torch.nn.CELU,
    torch.nn.ELU,
    torch.nn.GELU,
    torch.nn.Hardsigmoid,
    torch.nn.Hardswish,
    torch.nn.Hardtanh,
    torch.nn.Identity,
    torch.nn.LeakyReLU,
    torch.nn.LogSigmoid,
    torch.nn.Mish,
    torch.nn.ReLU,
    torch.nn.ReLU6,
    torch.nn.SELU,
    torch.nn.SiLU,
    torch.nn.Sigmoid,
    torch.nn.Softplus,
    torch.nn.Softsign,
    torch.nn.Tanh,
)
_CLASSES: dict[str, type] = {
    f"<class '{cls.__module__}.{cls.__qualname__}'>": cls
    for cls in (*_ACTIVATIONS, CombinedExtractor, FlattenExtractor, NatureCNN)
}
_UNUSED = ("device", "optimizer_class", "optimizer_kwargs")
# Attributes that decide on actions, with their types, and how they were trained and selected.
_NUMBERS = {
    "use_sde": bool,
    "sde_sample_freq": int,
    "use_sde_at_warmup": bool,
    "exploration_rate": float,
    "num_timesteps": int,
    "learning_starts": int,
}
_LOG_IDS = (TRAINED_ON, SELECTED_BY)
# Nothing is going to be trained.
_TINY = {"buffer_size": 1, "n_steps": 1, "n_envs": 1, "target_entropy": 0.0}
_LARGEST_RATIO = 100  # of a compressed entry; stable-baselines3 does not compress


def safe_load_model(
    path: str | PathLike[str],
    model_class: Any,
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    *,
    policy_kwargs: Mapping[str, Any] | None = None,
    action_noise: ActionNoise | None = None,
) -> Any:
    """Load a model that stable-baselines3 saved, without unpickling: the file cannot execute code.

    The model acts as the saved one; it cannot continue its training.

    Parameters
    ----------
    path : path
        The zip file.
    model_class : type
        Class that saved it, such as ``stable_baselines3.PPO``.
    observation_space, action_space : Space
        Spaces of the environment.
    policy_kwargs : dict, optional
        As passed to `model_class`. By default they are read from the file, which is possible for
        plain values, activation functions of torch and extractors of stable-baselines3.
    action_noise : ActionNoise, optional
        Required if the model was saved with action noise, which is a pickle.

    Returns
    -------
    BaseAlgorithm

    Raises
    ------
    InvalidInputError
        If the file is damaged, or does not hold such a model in a form that can be read safely.
    """
    file = Path(path)
    file = file if file.is_file() else file.with_name(f"{file.name}.zip")
    try:
        data, weights = _read(file)
        return _build(
            data,
            weights,
            model_class,
            (observation_space, action_space),
            policy_kwargs,
            action_noise,
        )
    except _Refused as error:
        raise InvalidInputError(
            f"`path` must be a model that can be loaded safely, but in {file} {error}", path=file
        ) from error
    except Exception as error:  # a hostile file can raise anything
        raise InvalidInputError(
            f"`path` must be a model saved by {getattr(model_class, '__name__', model_class)}, but "
            f"{file} cannot be loaded as one without unpickling: {type(error).__name__}: {error}. "
            "Check `model_class` and the spaces, or pass `policy_kwargs` to "
            "ove_sb3.safe_load_model.",
            path=file,
        ) from error


class _Refused(Exception):  # noqa: N818
    """Content of a file that cannot be loaded safely, and the remedy."""


def _read(file: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """JSON entries and weights of the policy."""
    with zipfile.ZipFile(file) as archive:
        data = json.loads(_entry(archive, "data"))
        content = _entry(archive, "policy.pth")
    weights = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    if not isinstance(data, dict) or not isinstance(weights, dict):
        raise _Refused("the entries data and policy.pth are not what model.save writes.")
    if not all(isinstance(value, torch.Tensor) for value in weights.values()):
        raise _Refused("policy.pth holds something other than weights.")
    return data, weights


def _entry(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        info = archive.getinfo(name)
    except KeyError:
        raise _Refused(f"there is no entry {name}. Save the model with model.save(...).") from None
    if info.file_size > _LARGEST_RATIO * max(info.compress_size, 1):
        raise _Refused(f"the entry {name} is compressed more than {_LARGEST_RATIO} times.")
    return archive.read(info)


def _build(
    data: dict[str, Any],
    weights: dict[str, torch.Tensor],
    model_class: Any,
    both_spaces: tuple[spaces.Space[Any], spaces.Space[Any]],
    policy_kwargs: Mapping[str, Any] | None,
    action_noise: ActionNoise | None,
) -> Any:
    if policy_kwargs is None:
        policy_kwargs = _policy_kwargs(data.get("policy_kwargs") or {}, weights)
    if data.get("action_noise") is not None and action_noise is None:
        raise _Refused(
            "the action noise is pickled. Pass `action_noise` to ove_sb3.safe_load_model."
        )
    policy_class = _policy_class(data.get("policy_class"), model_class)
    with torch.random.fork_rng(devices=[]):
        model = model_class(policy_class, None, device="cpu", _init_setup_model=False)
        model.observation_space, model.action_space = _transposed(both_spaces[0]), both_spaces[1]
        model.policy_kwargs, model.action_noise = dict(policy_kwargs), action_noise
        numbers = dict(_numbers(data, model))
        vars(model).update(_TINY, **numbers)
        model._setup_model()
        vars(model).update(numbers)  # some are set anew
        model.policy.load_state_dict(weights)
        if model.use_sde:
            model.policy.reset_noise()
    vars(model).update(_log_ids(data))
    return model


def _policy_class(entry: Any, model_class: Any) -> Any:
    """The class among those of `model_class` that the file names."""
    if isinstance(entry, dict):
        module, init = str(entry.get("__module__")), str(entry.get("__init__"))
        for cls in model_class.policy_aliases.values():
            if module == cls.__module__ and init.startswith(
                f"<function {cls.__qualname__}.__init__ "
            ):
                return cls
    raise _Refused(
        f"the policy is none of those of {model_class.__name__}: "
        f"{', '.join(sorted(model_class.policy_aliases))}. Load it yourself, if you trust it."
    )


def _policy_kwargs(entry: Any, weights: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Arguments of the policy: plain values, and classes that are known by name."""
    if not isinstance(entry, dict):
        raise _Refused("policy_kwargs is not a JSON object.")
    kwargs = {}
    for name, value in entry.items():
        if name in (":type:", _PICKLED, *_UNUSED):
            continue
        if isinstance(value, str):
            if value not in _CLASSES:
                raise _Refused(
                    f"policy_kwargs[{name!r}] is {value[:100]!r}, which is not known to be safe. "
                    "Pass `policy_kwargs` to ove_sb3.safe_load_model."
                )
            value = _CLASSES[value]
        kwargs[name] = value
    # Every size shows in the weights: nothing larger is built before they are compared.
    largest = max([len(weights), *(size for one in weights.values() for size in one.shape)])
    for size in _sizes(kwargs):
        if size > largest:
            raise _Refused(
                f"policy_kwargs asks for a size of {size}, but the weights have at most {largest}."
            )
    return kwargs


def _sizes(value: Any) -> Iterator[float]:
    """Numbers anywhere in a JSON value, and lengths of lists."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        yield len(value)
        for entry in value:
            yield from _sizes(entry)
    elif isinstance(value, int):
        yield value


def _numbers(data: Mapping[str, Any], model: Any) -> Iterator[tuple[str, Any]]:
    for name, kind in _NUMBERS.items():
        if name not in data or not hasattr(model, name):
            continue
        value = data[name]
        value = float(value) if kind is float and type(value) is int else value
        if type(value) is not kind:
            raise _Refused(f"{name} is {str(value)[:100]}, but must be a plain {kind.__name__}.")
        yield name, value
    rate = data.get("exploration_rate", 0.0)
    if not 0.0 <= rate <= 1.0:
        raise _Refused(f"exploration_rate is {rate}, but must be between 0 and 1.")


def _log_ids(data: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Logs that the model depends on: a guarantee rests on knowing them."""
    for name in _LOG_IDS:
        if name in data:
            value = data[name]
            if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
                raise _Refused(f"{name} is not a list of log identifiers.")
            yield name, value


def _transposed(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """The space as the model sees it: stable-baselines3 puts the channels of images first."""
    parts = space.spaces if isinstance(space, spaces.Dict) else {"": space}
    wrong = {
        key
        for key, part in parts.items()
        if is_image_space(part) and not is_image_space_channels_first(part)  # type: ignore[arg-type]
    }
    if not wrong:
        return space
    if not isinstance(space, spaces.Dict):
        return VecTransposeImage.transpose_space(space)  # type: ignore[arg-type]
    return spaces.Dict(
        {
            key: VecTransposeImage.transpose_space(part, key) if key in wrong else part  # type: ignore[arg-type]
            for key, part in parts.items()
        }
    )
