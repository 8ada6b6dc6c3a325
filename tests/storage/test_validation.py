"""Validation of all fields of configs and all arguments of commands."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import jax
import numpy as np
import pytest

from hanabi_rl.algorithms.ippo import IPPOConfig
from hanabi_rl.algorithms.registry import ALGORITHMS
from hanabi_rl.cli import app
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.launch.sweep_config import SweepConfig
from hanabi_rl.launch.zero_shot import ZeroShot
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.nn.structured_network import StructuredConfig
from hanabi_rl.storage.validation import (
    InvalidValueError,
    Range,
    Seed,
    validate_arguments,
    validate_fields,
)

NOT_FLOATS = (float("nan"), float("inf"), float("-inf"))
NOT_INTS = (2**63, -(2**63), 0.5, float("nan"))
SAY_THEMSELVES = (Rules, NetworkConfig, StructuredConfig)
"""Dataclasses that validate in `__post_init__`."""


def numbers(config: Any, prefix: str = "") -> Iterator[tuple[str, type, Callable[[Any], Any]]]:
    """Each number of a config: flag, type, and a function that sets it."""
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        name, value = field.name, getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            if not isinstance(value, SAY_THEMSELVES):
                own = "" if name == "shaping" else f"{name}."  # its flags have no prefix
                for flag, kind, inner in numbers(value, f"{prefix}{own}"):
                    yield (
                        flag,
                        kind,
                        lambda x, name=name, inner=inner: dataclasses.replace(
                            config, **{name: inner(x)}
                        ),
                    )
            continue
        kinds = {hints[name], *typing.get_args(hints[name])} & {int, float}
        many = typing.get_origin(hints[name]) is tuple
        for kind in kinds:
            flag = f"--{prefix}{name}".replace("_", "-")
            yield (
                flag,
                kind,
                lambda x, name=name, many=many: dataclasses.replace(
                    config, **{name: (x,) if many else x}
                ),
            )


@pytest.mark.parametrize("config", [*ALGORITHMS, SweepConfig, ZeroShot])
def test_config_numbers_are_validated(config: Any) -> None:
    made = ALGORITHMS[config].config() if isinstance(config, str) else config()
    found = list(numbers(made))
    assert len(found) > 5
    for flag, kind, with_value in found:
        for value in NOT_FLOATS if kind is float else NOT_INTS:
            with pytest.raises(InvalidValueError, match=f"^{flag}: expected a .*number.*, got "):
                with_value(value)


COMMANDS = {
    name: body
    for name, body in vars(app).items()
    if inspect.isfunction(body) and body.__module__.startswith("hanabi_rl.cli.") and name[0] != "_"
} | {f"{group} {name}": body for group, bodies, _ in app._GROUPS for name, body in bodies.items()}
AT_LEAST_1 = {"games", "eval_games", "heldout_games", "selfplay_games", "count", "instances"} | {
    "slots",
    "samples",
}


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"main"}))
def test_command_numbers_are_validated(name: str) -> None:
    """Before any work: not even the named files exist."""
    body = COMMANDS[name]
    hints = typing.get_type_hints(body)
    needed = {
        key: "x"
        for key, parameter in inspect.signature(body).parameters.items()
        if parameter.default is parameter.empty
    }
    for key, hint in hints.items():
        kinds = {hint, *typing.get_args(hint)} & {int, float}
        values = [x for kind in kinds for x in (NOT_FLOATS if kind is float else NOT_INTS)]
        if key == "seed":
            values += [-1, 2**32]
        if key in AT_LEAST_1 and int in kinds and name != "replay_command":
            values += [0]
        for value in values:
            flag = f"--{key.replace('_', '-')}"
            with pytest.raises(InvalidValueError, match=f"^{flag}: expected a"):
                validate_arguments(body)(**needed | {key: value})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0000001, "1.0000001"),
        (1.0000000000000002, "1.0000000000000002"),
        (-1e-9, "-1e-09"),
        (1234567.5, "1234567.5"),
        (1e300, "1e+300"),
        (2.0, "2"),
        (-1_000_000, "-1,000,000"),
        (float("nan"), "nan"),
    ],
)
def test_rejected_number_shows_all_digits(value: float, text: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        IPPOConfig(gamma=value)
    assert str(refused.value).removesuffix(f", got {text}") in (
        "--gamma: expected a number from 0 to 1",
        "--gamma: expected a number",
    )


def test_seed_range_has_no_aliases() -> None:
    """JAX uses 32 bits of a seed: numbers beyond them, or below 0, would repeat another run."""
    key = lambda seed: np.asarray(jax.random.key_data(jax.random.key(seed))).tolist()  # noqa: E731
    assert key(2**32 + 1) == key(1) and key(-1) == key(2**32 - 1)

    @dataclasses.dataclass(frozen=True)
    class Run:
        seed: Seed = 0

    assert len({tuple(key(seed)) for seed in (0, 1, 2**31 - 1, 2**31, 2**32 - 1)}) == 5
    for seed in (0, 2**31, 2**32 - 1):
        validate_fields(Run(seed))
    for seed in (-1, 2**32, 2**32 + 1, 2**63):
        with pytest.raises(
            InvalidValueError, match=r"^--seed: expected .* 0 to 4,294,967,295, got"
        ):
            validate_fields(Run(seed))


@pytest.mark.parametrize(
    ("allowed", "inside", "outside", "text"),
    [
        (Range(0.0, 1.0), (0.0, 1.0), (-1e-9, 1.1), "from 0 to 1"),
        (Range(0.0, exclusive_low=True), (1e-9, 1e300), (0.0, -1.0), "above 0"),
        (Range(0.0, 1.0, exclusive_high=True), (0.0, 0.999), (1.0,), "at least 0 and below 1"),
        (Range(high=0.5), (-1e300, 0.5), (0.6,), "at most 0.5"),
    ],
)
def test_range_contains_and_prints_bounds(
    allowed: Range, inside: tuple[float, ...], outside: tuple[float, ...], text: str
) -> None:
    assert all(map(allowed.contains, inside)) and not any(map(allowed.contains, outside))
    assert str(allowed) == text


def test_validate_arguments_checks_values() -> None:
    def command(
        many: tuple[Annotated[int, Range(1, 3)], ...] = (),
        maybe: Annotated[float, Range(0.0, 1.0)] | None = None,
        flag: bool = True,
        *,
        word: str = "nan",
    ) -> str:
        return word

    run = validate_arguments(command)
    assert run((1, 3), 0.5, flag=False) == "nan" and run(maybe=None, word="inf") == "inf"
    assert inspect.signature(run) == inspect.signature(command)
    for wrong in ({"many": (1, 4)}, {"many": (2, 1.5)}, {"maybe": 2.0}, {"maybe": float("nan")}):
        with pytest.raises(InvalidValueError, match=f"^--{next(iter(wrong))}: "):
            run(**wrong)
