"""Agents of the user's own code: `python:FILE.py:CLASS`, `process:COMMAND`, classes, objects."""

from __future__ import annotations

import hashlib
import inspect
import shlex
import types
import typing
import weakref
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, ClassVar

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.agents.bots.base import Bot
from hanabi_rl.agents.bots.registry import Parameter, parameters_of
from hanabi_rl.agents.identity import agent_hash, source_hash
from hanabi_rl.agents.policy import Policy, PyTree, next_game
from hanabi_rl.agents.process import ProcessAgent
from hanabi_rl.agents.python_bot import HostPolicy, Sessions, python_act, user_code
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.nn.networks import ILLEGAL_LOGIT
from hanabi_rl.storage.user_modules import user_module
from hanabi_rl.storage.words import did_you_mean

ENTRY_POINTS = "hanabi_rl.agents"
"""Group of entry points by which packages offer classes of agents: `python:NAME`."""
_KINDS = "a hanabi_rl.Bot, a policy (rules, init_carry, step) or plain Python (act)"


class _Held:
    """An object, compared by identity whatever its own `__eq__`."""

    def __init__(self, value: Any) -> None:
        self.value = value


class PlainPolicy(Bot):
    """A policy that is no pytree; compiled code contains its arrays as constants."""

    held: _Held | None = flax.struct.field(pytree_node=False, default=None)
    label: str = flax.struct.field(pytree_node=False, default="")
    name: ClassVar[str] = "plain"

    @property
    def policy(self) -> Any:
        """The user's object."""
        assert self.held is not None
        return self.held.value

    def identity(self) -> str:
        """The object's own, otherwise of its source file and `label`."""
        if hasattr(self.policy, "identity"):
            return str(self.policy.identity())
        return agent_hash({"python": self.label, "source": source_hash(type(self.policy))})

    def init_carry(self, batch: int) -> PyTree:
        """See `Policy.init_carry`."""
        return self.policy.init_carry(batch)

    def next_game(self, carry: PyTree, continues: jax.Array) -> PyTree:
        """See `agents/policy.py`."""
        return next_game(self.policy, carry, continues)

    def step(
        self,
        carry: PyTree,
        obs: jax.Array,
        legal: jax.Array,
        reset: jax.Array,
        key: jax.Array | None = None,
    ) -> tuple[PyTree, jax.Array]:
        """See `Policy.step`; illegal actions are masked."""
        answer: tuple[PyTree, jax.Array] = self.policy.step(carry, obs, legal, reset, key)
        if not isinstance(answer, tuple) or len(answer) != 2 or answer[1].shape != legal.shape:
            return answer  # `check_steps` raises
        return answer[0], jnp.where(legal, answer[1], ILLEGAL_LOGIT)


def python_parameters(name: str) -> dict[str, Parameter]:
    """Parameters of the class `python:...`. Raises ValueError if it cannot be imported."""
    return class_parameters(find_class(name))


def class_parameters(cls: type) -> dict[str, Parameter]:
    """Parameters of a class's constructor without `rules`; a type is the annotated one, otherwise
    the default's."""
    if issubclass(cls, Bot):
        return parameters_of(cls)
    hints: dict[str, Any] = {}
    for target in (cls, cls.__init__):
        try:
            hints |= typing.get_type_hints(target)
        except Exception:  # names that are not importable here
            continue
    found = {}
    for parameter in inspect.signature(cls).parameters.values():
        if parameter.name == "rules" or parameter.kind in (
            inspect.Parameter.VAR_POSITIONAL,
            inspect.Parameter.VAR_KEYWORD,
        ):
            continue
        default = parameter.default
        kind = hints.get(
            parameter.name, str if default in (None, parameter.empty) else type(default)
        )
        if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
            kind = next(one for one in typing.get_args(kind) if one is not type(None))
        found[parameter.name] = Parameter(kind, default)
    return found


def make_python_agent(name: str, rules: Any, **parameters: Any) -> Policy:
    """Agent `python:FILE.py:CLASS`, `python:package.module:CLASS` or `python:ENTRY_POINT`.

    Raises ValueError: it cannot be imported, a parameter is missing, it raises an exception (with
    the line), or its shapes are wrong.
    """
    return agent_of_class(find_class(name), rules, name, **parameters)


def agent_of_class(cls: type, rules: Any, label: str, **parameters: Any) -> Policy:
    """The agent of a class: a `Bot`, a policy or plain Python."""
    if issubclass(cls, Bot):
        with user_code(label):
            made: Any = cls.make(rules, **parameters)
        return check_steps(made, label)
    known = class_parameters(cls)
    for key, parameter in known.items():
        if parameter.default is inspect.Parameter.empty and key not in parameters:
            raise ValueError(f"{label}: expected ?{key}=..., a parameter without default")
    if "rules" in inspect.signature(cls).parameters:
        given = {**parameters, "rules": rules}
    else:
        given = parameters

    def make() -> Any:
        return cls(**given)

    if callable(getattr(cls, "act", None)):
        if not isinstance(rules, Rules):
            raise ValueError(f"{label}: act: expected a game of Hanabi, got {rules.name}")
        with user_code(label):
            make()  # fail before the games begin
        identity = agent_hash(
            {"python": cls.__qualname__, "source": source_hash(cls), "parameters": parameters}
        )
        return HostPolicy(rules, sessions=Sessions(rules, python_act(make, label), identity))
    if not callable(getattr(cls, "step", None)):
        raise ValueError(f"{label}: expected {_KINDS}, got class {cls.__name__}")
    with user_code(label):
        made = make()
    return as_policy(made, rules, label, parameters)


def as_policy(
    agent: Any, rules: Any = None, label: str = "", parameters: Mapping[str, Any] = {}
) -> Policy:
    """`agent` as a policy for compiled code: a policy, also a plain one, or a class of agents.

    Raises ValueError as `make_python_agent`, TypeError for other objects.
    """
    label = label or (agent if isinstance(agent, type) else type(agent)).__name__
    if isinstance(agent, type):
        return agent_of_class(agent, rules or Rules(), label)
    if isinstance(agent, str) or not (hasattr(agent, "step") and hasattr(agent, "init_carry")):
        raise TypeError(f"expected {_KINDS}, got {label} {agent!r}")
    if type(agent).__module__.startswith("hanabi_rl."):
        return typing.cast(Policy, agent)
    if not jax.tree_util.all_leaves([agent]):
        return check_steps(agent, label)
    game = getattr(agent, "rules", rules)
    if game is None:
        raise ValueError(f"{label}: expected an attribute rules, its game, got none")
    spec = "&".join(f"{key}={value}" for key, value in parameters.items())
    made = PlainPolicy(game, held=_Held(agent), label=f"{type(agent).__qualname__}?{spec}")
    return check_steps(made, label)


def as_pytrees(policies: Sequence[Any], rules: Any) -> tuple[Policy, ...]:
    """`policies` with plain ones wrapped, a repeated object once."""
    made = {
        id(policy): as_policy(policy, rules)
        for policy in policies
        if not isinstance(policy, str) and jax.tree_util.all_leaves([policy])
    }
    return tuple(made.get(id(policy), policy) for policy in policies)


def check_steps(policy: Any, label: str) -> Policy:
    """Trace two seats of `policy` and return it. Raises ValueError for an exception, with the line
    of the user's code, and for wrong shapes or types."""
    rules, batch = policy.rules, 2
    rows = (
        jax.ShapeDtypeStruct((batch, *rules.obs_shape), jnp.float32),
        jax.ShapeDtypeStruct((batch, rules.num_actions), jnp.bool_),
        jax.ShapeDtypeStruct((batch,), jnp.bool_),
        jax.eval_shape(lambda: jax.random.split(jax.random.key(0), batch)),
    )
    step = policy.policy.step if isinstance(policy, PlainPolicy) else policy.step
    try:
        inspect.signature(step).bind(None, *rows)
    except TypeError as error:
        raise ValueError(
            f"{label}: step: expected step(carry, obs, legal, reset, key), got "
            f"step{inspect.signature(step)}"
        ) from error
    with user_code(label):
        carry = jax.eval_shape(lambda: policy.init_carry(batch))
        answer = jax.eval_shape(policy.step, carry, *rows)
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise ValueError(f"{label}: step: expected (carry, logits), got {_shapes(answer)}")
    after, logits = answer
    expected = jax.ShapeDtypeStruct((batch, rules.num_actions), jnp.float32)
    if _shapes(logits) != _shapes(expected):
        raise ValueError(
            f"{label}: step: expected logits {_shapes(expected)} for {batch} seats, got "
            f"{_shapes(logits)}"
        )
    if _shapes(after) != _shapes(carry):
        raise ValueError(
            f"{label}: step: expected the carry of init_carry, {_shapes(carry)} for {batch} seats, "
            f"got {_shapes(after)}"
        )
    for leaf in jax.tree.leaves(carry):
        if leaf.shape[:1] != (batch,):
            raise ValueError(
                f"{label}: init_carry: expected leaves [{batch}, ...] for {batch} seats, got "
                f"{_shapes(leaf)}"
            )
    return typing.cast(Policy, policy)


def _shapes(tree: Any) -> str:
    """`float32[2, 20]` for each leaf."""
    return str(jax.tree.map(lambda leaf: _Text(f"{leaf.dtype}{list(leaf.shape)}"), tree))


class _Text(str):
    """Text without quotes in a container."""

    __repr__ = str.__str__


def find_class(name: str, group: str = ENTRY_POINTS) -> type:
    """Class `python:FILE.py:CLASS`, `python:package.module:CLASS` or `python:ENTRY_POINT` of a
    group.

    An edited file is imported again. Raises ValueError: no such file, module, class or entry point,
    or an exception in it.
    """
    path = name.removeprefix("python:")
    place, _, wanted = path.rpartition(":")
    if not place:
        if path.endswith(".py") or (path and Path(path).exists()):
            place, wanted = path, ""
        else:
            return _entry_point(name, path, group)
    with user_code(name):
        module = user_module(place)
    if module is None:
        why = "no such file" if place.endswith(".py") else "no such module"
        raise ValueError(f"{name}: {why}: {place}")
    found = getattr(module, wanted, None) if wanted else None
    if not isinstance(found, type):
        own = [
            key
            for key, value in vars(module).items()
            if isinstance(value, type) and value.__module__ == module.__name__
        ]
        got = f"got {wanted!r}" if wanted else "got none"
        raise ValueError(
            f"{name}: expected a class of {place} ({', '.join(own) or 'it has none'}), {got}"
            f"{did_you_mean(wanted, own)}"
        )
    return found


def entry_point_names() -> list[str]:
    """Names of agents that installed packages offer, `python:NAME`."""
    return [f"python:{point.name}" for point in entry_points(group=ENTRY_POINTS)]


def _entry_point(name: str, short: str, group: str) -> type:
    points = {point.name: point for point in entry_points(group=group)}
    if short not in points:
        raise ValueError(
            f"{name}: expected python:FILE.py:CLASS, python:package.module:CLASS or a name of the "
            f"entry points {group} ({', '.join(points) or 'none installed'})"
            f"{did_you_mean(short, points)}"
        )
    with user_code(name):
        found = points[short].load()
    if not isinstance(found, type):
        raise ValueError(f"{name}: expected a class, got {found!r}")
    return found


def make_process_agent(name: str, rules: Any) -> Policy:
    """Agent `process:COMMAND`: one program for all seats, which asks by the number of the game.

    Its identity covers the command and the files that it names. Raises ValueError for an empty
    command.
    """
    if not isinstance(rules, Rules):
        raise ValueError(f"{name}: expected a game of Hanabi, got {rules.name}")
    command = name.removeprefix("process:")
    program = ProcessAgent(command, label=name)
    files = {
        word: hashlib.sha256(Path(word).expanduser().read_bytes()).hexdigest()
        for word in shlex.split(command)
        if Path(word).expanduser().is_file()
    }
    identity = agent_hash({"process": command, "files": files})
    sessions = Sessions(rules, lambda: program.move, identity)
    weakref.finalize(sessions, program.close)
    return HostPolicy(rules, sessions=sessions)
