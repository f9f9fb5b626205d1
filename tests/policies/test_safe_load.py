"""Loading models without unpickling: the same model, or an error, and no code is executed."""

from __future__ import annotations

import base64
import builtins
import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stable_baselines3
import torch
from gymnasium import spaces
from sb3_contrib import QRDQN
from stable_baselines3 import A2C, PPO, TD3
from typer.testing import CliRunner

import ove_sb3 as ove
from ove_sb3.cli.app import app
from ove_sb3.data.metadata import describe_space, make_space
from ove_sb3.policies.dispatch import as_policy
from ove_sb3.policies.provenance import mark_selected, mark_trained, read_provenance

from .toys import ACTIONS, CASES, OBSERVATIONS, Toy, make_model, normal_noise, toys


class Bomb:
    """An object that fails the test if it is unpickled."""

    def __reduce__(self) -> Any:
        return exploded, ()


def exploded() -> None:
    raise SystemExit("pickled code was executed")


BOMB = base64.b64encode(pickle.dumps(Bomb())).decode()


@pytest.fixture
def no_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any use of pickle is an error; torch reads weights with an unpickler of its own."""
    import cloudpickle

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("something was unpickled")

    for module in (pickle, cloudpickle):
        for name in ("load", "loads"):
            monkeypatch.setattr(module, name, refuse)


def spaces_of(case: str) -> tuple[Any, Any]:
    """Observation and action space, as a log stores them."""
    _, action, observation, _ = CASES[case]
    both = OBSERVATIONS[observation], ACTIONS[action]
    return make_space(describe_space(both[0])), make_space(describe_space(both[1]))


def rewrite(source: Path, target: Path, **changes: Any) -> Path:
    """Copy a model file with entries of its JSON changed, or whole members replaced."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "data":
                data = json.loads(content)
                data.update({k: v for k, v in changes.items() if not isinstance(v, bytes)})
                content = json.dumps(data).encode()
            new.writestr(name, changes.get(name.replace(".", "_"), content))
    return target


def arm(source: Path, target: Path) -> Path:
    """Copy a model file with a bomb in place of every pickled entry, and new ones."""
    with zipfile.ZipFile(source) as old:
        data = json.loads(old.read("data"))
    pickled = {
        name: {**value, ":serialized:": BOMB}
        for name, value in data.items()
        if isinstance(value, dict) and ":serialized:" in value
    }
    extra = {name: {":type:": "x", ":serialized:": BOMB} for name in ("env", "anything")}
    return rewrite(source, target, **pickled, **extra)


@pytest.mark.parametrize("case", CASES)
def test_the_same_model(case: str, tmp_path: Path) -> None:
    model = make_model(case)
    mark_trained(model, ["a-log"])
    mark_selected(model, ["another"])
    model.save(tmp_path / "model.zip")
    file = arm(tmp_path / "model.zip", tmp_path / "armed.zip")
    with pytest.raises(SystemExit):
        type(model).load(file, device="cpu")
    noise: Any = {} if model.action_noise is None else {"action_noise": normal_noise()}
    state = torch.get_rng_state()
    loaded = ove.safe_load_model(file, type(model), *spaces_of(case), **noise)
    assert torch.equal(state, torch.get_rng_state())
    # The fingerprint covers spaces, weights, structure, noise and exploration.
    assert as_policy(loaded).fingerprint() == as_policy(model).fingerprint() is not None
    assert read_provenance(loaded) == read_provenance(model)
    assert read_provenance(loaded).trained_on == ("a-log",)


@pytest.mark.parametrize("cls", [A2C, QRDQN, PPO])
def test_default_models_and_the_same_numbers(cls: Any, tmp_path: Path) -> None:
    """Default A2C and QRDQN have pickled `policy_kwargs`: their optimizer is not Adam."""
    model = cls("MlpPolicy", toys(), seed=3, device="cpu")
    if cls is QRDQN:
        model.exploration_rate = 0.2
    model.save(tmp_path / "plain")
    arm(tmp_path / "plain.zip", tmp_path / "model.zip")
    data = ove.collect(ove.UniformPolicy(ACTIONS["discrete"]), Toy(), 20, seed=0)
    expected = ove.log_prob(model, data)
    options: Any = {"gamma": 0.9, "reward_range": (0, 3), "horizon": 10}
    want = ove.evaluate(data, model, **options).to_dict()
    got = ove.evaluate(
        data, tmp_path / "model", model_class=cls, safe_load=True, **options
    ).to_dict()
    assert got["quantities"] == want["quantities"]
    both = ove.compare(
        data,
        {"one": model, "two": tmp_path / "model.zip"},
        model_class=cls,
        safe_load=True,
        **options,
    )
    one, two = both["one"].to_dict(), both["two"].to_dict()
    assert one["quantities"] == two["quantities"]
    loaded = ove.safe_load_model(tmp_path / "model", cls, *spaces_of("PPO-discrete"))
    assert np.array_equal(ove.log_prob(loaded, data), expected)


def test_networks_other_than_the_default(tmp_path: Path) -> None:
    kwargs = {
        "net_arch": {"pi": [7], "vf": [5, 6]},
        "activation_fn": torch.nn.ELU,
        "features_extractor_class": stable_baselines3.common.torch_layers.FlattenExtractor,
        "optimizer_class": torch.optim.SGD,
    }
    model = make_model("PPO-discrete", policy_kwargs=kwargs)
    model.save(tmp_path / "model")
    loaded = ove.safe_load_model(tmp_path / "model", PPO, *spaces_of("PPO-discrete"))
    assert as_policy(loaded).fingerprint() == as_policy(model).fingerprint()


class OwnActivation(torch.nn.ReLU):
    """An activation that the file cannot name safely."""


def test_what_must_be_passed(tmp_path: Path) -> None:
    kwargs = {"activation_fn": OwnActivation, "net_arch": [16]}
    model = make_model("PPO-discrete", policy_kwargs=kwargs)
    model.save(tmp_path / "model")
    arguments: Any = (tmp_path / "model.zip", PPO, *spaces_of("PPO-discrete"))
    with pytest.raises(ove.InvalidInputError, match=r"'activation_fn'.*Pass `policy_kwargs`") as e:
        ove.safe_load_model(*arguments)
    assert e.value.path == arguments[0]
    loaded = ove.safe_load_model(*arguments, policy_kwargs=kwargs)
    assert isinstance(loaded.policy.mlp_extractor.policy_net[1], OwnActivation)

    make_model("TD3-box").save(tmp_path / "noise")
    arguments = (tmp_path / "noise", TD3, *spaces_of("TD3-box"))
    with pytest.raises(ove.InvalidInputError, match="Pass `action_noise`"):
        ove.safe_load_model(*arguments)
    loaded = ove.safe_load_model(*arguments, action_noise=normal_noise())
    assert loaded.action_noise is not None


HOSTILE: dict[str, dict[str, Any]] = {
    "weights": {"policy_pth": pickle.dumps(Bomb())},
    "huge network": {"policy_kwargs": {"net_arch": [10**9, 10**9]}},
    "deep network": {"policy_kwargs": {"net_arch": [16] * 10**5}},
    "nested": {"data": b'{"a":' * 100_000},
    "no JSON": {"data": b"\x80\x04."},
    "list": {"data": b"[]"},
    "other policy": {"policy_class": {"__module__": "os", "__init__": "<function system."}},
    "no policy": {"policy_class": None},
    "class by name": {"policy_kwargs": {"activation_fn": "<class 'os.system'>"}},
    "unknown argument": {"policy_kwargs": {"net_arch": [16], "nonsense": 1}},
    "other size": {"policy_kwargs": {"net_arch": [15]}},
    "exploration": {"exploration_rate": float("nan")},
    "sde": {"use_sde": "yes"},
    "steps": {"num_timesteps": {":serialized:": BOMB}},
    "identifiers": {"ove_log_ids": {":serialized:": BOMB}},
    "huge buffer": {"n_steps": 10**12, "buffer_size": 10**15, "n_envs": 10**9},
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files(kind: str, tmp_path: Path, no_pickle: None) -> None:
    case = "DQN-discrete" if kind in ("exploration", "huge buffer") else "PPO-discrete"
    model = make_model(case)
    model.save(tmp_path / "model.zip")
    file = rewrite(tmp_path / "model.zip", tmp_path / "bad.zip", **HOSTILE[kind])
    if kind == "huge buffer":  # not needed for acting: not taken from the file
        ove.safe_load_model(file, type(model), *spaces_of(case))
        return
    reason = "asks for a size" if kind in ("huge network", "deep network") else ""
    with pytest.raises(ove.InvalidInputError, match=rf"bad\.zip .*{reason}"):
        ove.safe_load_model(file, type(model), *spaces_of(case))


def test_zip_bombs_and_other_files(tmp_path: Path) -> None:
    file = tmp_path / "bomb.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data", b" " * 10_000_000)
    arguments: Any = (file, PPO, *spaces_of("PPO-discrete"))
    with pytest.raises(ove.InvalidInputError, match="compressed more than"):
        ove.safe_load_model(*arguments)
    for content in (b"", b"PK", b"no zip at all" * 100):
        file.write_bytes(content)
        with pytest.raises(ove.InvalidInputError, match=r"bomb\.zip"):
            ove.safe_load_model(*arguments)
    with pytest.raises(ove.InvalidInputError, match=r"missing\.zip"):
        ove.safe_load_model(tmp_path / "missing", *arguments[1:])


def test_weights_that_hide_code(tmp_path: Path) -> None:
    """Weights with an object inside, which a plain `torch.load` would execute."""
    make_model("PPO-discrete").save(tmp_path / "model.zip")
    content = io.BytesIO()
    torch.save({"a": Bomb()}, content)
    file = rewrite(tmp_path / "model.zip", tmp_path / "bad.zip", policy_pth=content.getvalue())
    with pytest.raises(ove.InvalidInputError, match=r"bad\.zip"):
        ove.safe_load_model(file, PPO, *spaces_of("PPO-discrete"))


def test_arguments(tmp_path: Path) -> None:
    model = make_model("PPO-discrete")
    model.save(tmp_path / "model.zip")
    data = ove.collect(model, Toy(), 5, seed=0)
    options: Any = {"gamma": 0.9, "reward_range": (0, 3), "safe_load": True}
    with pytest.raises(ove.InvalidInputError, match="`safe_load` must be left out"):
        ove.evaluate(data, model, **options)
    statistics = tmp_path / "statistics.pkl"
    statistics.write_bytes(pickle.dumps(Bomb()))
    file: Any = {"candidate": tmp_path / "model.zip", "model_class": PPO}
    with pytest.raises(ove.InvalidInputError, match="`vec_normalize` must not be a path"):
        ove.evaluate(data, **file, vec_normalize=statistics, **options)
    nameless = ove.Trajectories.from_arrays(
        observations=data.observations,
        actions=data.actions,
        log_probs=data.log_probs,
        rewards=data.rewards,
        lengths=data.lengths,
    )
    with pytest.raises(ove.InvalidInputError, match="does not state its observation_space"):
        ove.evaluate(nameless, **file, horizon=10, **options)
    for path, class_ in ((tmp_path / "none.zip", PPO), (tmp_path / "model.zip", None)):
        with pytest.raises(ove.InvalidInputError, match=r"does not exist|model_class"):
            ove.evaluate(data, path, model_class=class_, **options)


def test_the_command_line(tmp_path: Path) -> None:
    """`collect`, `evaluate` and `compare` with files that contain a bomb, also as the behavior."""
    PPO("MlpPolicy", "CartPole-v1", seed=0, device="cpu").save(tmp_path / "model.zip")
    file = str(arm(tmp_path / "model.zip", tmp_path / "armed.zip"))
    log = str(tmp_path / "log")

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(app, list(arguments))

    collect = ["collect", file, "CartPole-v1", log, "--episodes", "20", "--model-class", "PPO"]
    assert "pickled code was executed" in str(run(*collect).exception)
    result = run(*collect, "--safe-load")
    assert result.exit_code == 0, result.output
    options = ["--gamma", "0.9", "--reward-range", "0", "1", "--model-class", "PPO"]
    for command in (["evaluate", log, file], ["compare", log, f"a={file}", f"b={file}"]):
        assert "pickled code was executed" in str(run(*command, *options).exception)
        for more in ([], ["--behavior", file]):
            result = run(*command, *options, *more, "--safe-load")
            assert result.exit_code == 0, result.output


def test_the_spaces_are_those_that_are_passed(tmp_path: Path) -> None:
    make_model("PPO-box1").save(tmp_path / "model")
    wide = spaces.Box(-3.0, 3.0, (1,), np.float32)
    loaded = ove.safe_load_model(tmp_path / "model", PPO, OBSERVATIONS["vector"], wide)
    assert loaded.policy.action_space == loaded.action_space == wide
    with pytest.raises(ove.InvalidInputError, match="Check `model_class` and the spaces"):
        ove.safe_load_model(tmp_path / "model", PPO, OBSERVATIONS["vector"], ACTIONS["discrete"])


def test_opening_a_log_reads_no_pickle(
    tmp_path: Path, no_pickle: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = ove.collect(ove.UniformPolicy(ACTIONS["discrete"]), Toy(), 20, seed=0)
    with ove.EpisodeWriter(tmp_path / "log", data.metadata) as writer:
        writer.add(data[:10])
    writer = ove.EpisodeWriter(tmp_path / "log", data.metadata)
    writer.add(data[10:])
    writer.flush()
    modules: list[str] = []
    original = builtins.__import__

    def record(name: str, *args: Any, **kwargs: Any) -> Any:
        modules.append(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", record)
    log = ove.open_log(tmp_path / "log")
    assert log.load().n_steps == data.n_steps
    assert not {"pickle", "cloudpickle", "torch"} & set(modules)
