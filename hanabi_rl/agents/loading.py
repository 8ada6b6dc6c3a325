"""Agents by name: the one parser that every command, the matrix and the cache use.

    bot:NAME                     a bot of `agents/bots/`; ?parameter=value&... sets its parameters
    agent:NAME                   a trained agent that comes with the package
    ah2ac2:FILE, obl:FILE        published weights
    hf:OWNER/NAME[/FILE][@REV]   an agent on the Hugging Face Hub
    FOLDER                       a policy folder, a run's folder or a checkpoints/<step>
    FILE.safetensors             a policy's file: a run's, or one that `hanabi-rl export` wrote

Every agent takes options, `AGENT?option=value&...`, which wrap it in the order given:
`WRAPPER_OPTIONS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.bots.registry import (
    BOTS,
    RENAMED_PARAMETERS,
    bot_parameters,
    bot_scores,
    make_bot,
)
from hanabi_rl.agents.hub import load_from_hub
from hanabi_rl.agents.policy import Policy
from hanabi_rl.agents.policy_file import (
    RENAMED_AGENTS,
    SUFFIX,
    bundled_files,
    load_bundled,
    read_card,
    read_file,
    read_rules,
)
from hanabi_rl.agents.policy_folder import read_folder, why_no_policy
from hanabi_rl.agents.published import load_published
from hanabi_rl.agents.search.config import RENAMED_SETTINGS, option_types, search_config
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.storage.files import expand_home
from hanabi_rl.storage.jax_settings import with_our_settings
from hanabi_rl.storage.trees import leaf_paths

BOT = "bot"
BUNDLED = "agent"
HUB = "hf"
LOADERS: dict[str, Callable[[str], Policy]] = {
    BUNDLED: load_bundled,
    "ah2ac2": load_published,
    "obl": load_published,
    HUB: load_from_hub,
}
"""What stands before the colon of an agent that plays one game -> its loader, given the name up to
the options."""
RENAMED_OPTIONS = {"knows": "partner_games", "partner": "partner_model", **RENAMED_SETTINGS}
"""Options that are refused with their name now."""


_SEEDS = re.compile(r"(.*[?&]seed=)(\d+)\.\.(\d+)(|&.*)")
_MAX_SEEDS = 10_000


class WrapperOption(NamedTuple):
    """A wrapper that any agent can be put in."""

    type: Any
    """Of its value, as `read_value` takes it."""
    wrap: Callable[..., Policy]
    """(policy, value) -> the policy wrapped; its `options` by keyword."""
    about: str
    settings: Callable[[], Mapping[str, Any]] = dict
    """What may follow it in a name and sets a part of it -> its type."""


def _permute_colors(policy: Policy, colors: tuple[int, ...]) -> Policy:
    if sorted(colors) != list(range(policy.rules.num_colors)):
        raise ValueError(
            f"expected the colours 0 to {policy.rules.num_colors - 1} in another order, got "
            f"{','.join(map(str, colors))}"
        )
    from hanabi_rl.agents.color_permuted import ColorPermuted

    return ColorPermuted(policy, jnp.array(colors, jnp.int32))


def _add_noise(policy: Policy, noise: float) -> Policy:
    if not 0.0 <= noise < 1.0:  # at 1 no move is the most likely
        raise ValueError(f"expected a probability from 0 to below 1, got {noise}")
    from hanabi_rl.agents.noisy import EpsilonNoise

    return EpsilonNoise(policy, epsilon=noise)


def _make_gullible(policy: Policy, plays: int) -> Policy:
    from hanabi_rl.agents.gullible import ALWAYS, IF_PLAYABLE, Gullible

    if plays not in (IF_PLAYABLE, ALWAYS):
        raise ValueError(f"expected {IF_PLAYABLE} or {ALWAYS}, got {plays}")
    return Gullible(policy, plays=plays)


def _filter_plays(policy: Policy, min_probs: tuple[float, ...]) -> Policy:
    if len(min_probs) != 2 or not all(0.0 <= prob <= 1.0 for prob in min_probs):
        raise ValueError(
            "expected two probabilities from 0 to 1, on the last life and before, got "
            f"{','.join(map(str, min_probs))}"
        )
    from hanabi_rl.agents.safety_filter import SafetyFilter

    return SafetyFilter(policy, min_prob_last_life=min_probs[0], min_prob=min_probs[1])


def _set_temperature(policy: Policy, temperature: float) -> Policy:
    # beyond these a legal move's logit is no float32, or below that of an illegal one
    if not 1e-6 <= temperature <= 1e6:
        raise ValueError(f"expected a number from 0.000001 to 1,000,000, got {temperature}")
    from hanabi_rl.agents.tempered import Tempered

    return Tempered(policy, temperature=temperature)


def _with_search(
    policy: Policy, preset: str, partner_model: str | None = None, **settings: Any
) -> Policy:
    from hanabi_rl.agents.search.search_policy import with_search

    names = [] if partner_model is None else partner_model.split("+")
    models = [load_policy(name, policy.rules) for name in names]
    return with_search(policy, models, search_config(preset, settings))


def _search_settings() -> dict[str, Any]:
    return {**option_types(), "partner_model": str}


def _preload_profile(policy: Policy, setting: tuple[str, ...]) -> Policy:
    path, *seat = setting
    if len(seat) > 1 or not all(text.isdecimal() for text in seat):
        raise ValueError(
            f"expected a file of games, or it and the partner's seat there, FILE,SEAT; got "
            f"{','.join(setting)}"
        )
    from hanabi_rl.agents.preloaded_profile import preload_profile

    return preload_profile(policy, path, *map(int, seat))


WRAPPER_OPTIONS: dict[str, WrapperOption] = {
    "colors": WrapperOption(
        tuple[int, ...], _permute_colors, "colors=1,0,2,3,4: it sees colour i as the i-th of these"
    ),
    "gullible": WrapperOption(
        int,
        _make_gullible,
        "gullible=2: it plays its oldest hinted card, whatever it is, and else does what it does; "
        "gullible=1: the oldest that can be playable",
    ),
    "noise": WrapperOption(
        float,
        _add_noise,
        "noise=0.1: where it draws its moves, any legal one on a tenth of its turns; greedy play "
        "stays what it is",
    ),
    "partner_games": WrapperOption(
        tuple[str, ...],
        _preload_profile,
        "partner_games=games.safetensors: its profile of the partner is preloaded from these "
        "games, of the human seats or, where none is marked, of every seat; "
        "partner_games=games.safetensors,1 of seat 1",
    ),
    "safe": WrapperOption(
        tuple[float, ...],
        _filter_plays,
        "safe=0.6,0.1: it plays no card that is playable, by counting, with probability below 0.6 "
        "on the last life, below 0.1 before",
    ),
    "search": WrapperOption(
        str,
        _with_search,
        "search=fast: it searches before each move, with the others modelled as itself; "
        "search=strong: longer; partner_model=agent:A+agent:B after it: they are modelled as "
        "whichever of these fits their moves; lambda=0.3, num_rollouts=64, ...: see docs/search.md",
        _search_settings,
    ),
    "temperature": WrapperOption(
        float,
        _set_temperature,
        "temperature=1.5: its logits are divided by 1.5; greedy play stays what it is (below 1 "
        "bots that play by chance are surer there too)",
    ),
}
"""Every option; a new wrapper is its class, a function that imports it and its line here."""


class AgentName(NamedTuple):
    """A name, taken apart; nothing is looked up yet."""

    scheme: str
    """What is before the colon (`bot`, `ah2ac2`, ...); "" for a folder."""
    path: str
    """The bot's name, the file or the folder."""
    options: Mapping[str, str]
    """What follows the question mark, in order."""

    @property
    def without_options(self) -> str:
        """The name without its settings."""
        return f"{self.scheme}:{self.path}" if self.scheme else self.path


def parse_name(name: str) -> AgentName:
    """Takes a name apart.

    Raises:
        ValueError: where what follows the question mark is not key=value, or has a key twice.
    """
    plain, question, text = name.partition("?")
    options: dict[str, str] = {}
    for pair in text.split("&") if question else ():
        key, equals, value = pair.partition("=")
        if not (key and equals and value):
            raise ValueError(f"{name}: expected ?key=value&..., got {pair!r}")
        if key in options:
            raise ValueError(f"{name}: expected {key} once, got it twice")
        options[key] = value
    scheme, colon, path = plain.partition(":")
    if not colon or scheme not in (BOT, *LOADERS):
        scheme, path = "", plain
    if scheme == BOT:
        options = {RENAMED_PARAMETERS.get(key, key): value for key, value in options.items()}
    return AgentName(scheme, path, options)


def current_name(name: str) -> str:
    """`name`, as an older run or model card has it, by the name that a bundled agent has now."""
    agent, question, options = name.partition("?")
    prefix, _, short = agent.partition(":")
    if prefix == BUNDLED and short in RENAMED_AGENTS:
        agent = f"{BUNDLED}:{RENAMED_AGENTS[short]}"
    return agent + question + options


def strip_options(name: str) -> str:
    """The name of the agent that the options of `name` wrap; a bot's own parameters are no options:
    `bot:rules?seed=3&noise=0.1` -> `bot:rules?seed=3`. What is no name of an agent stays as it is.
    """
    try:
        parsed = parse_name(name)
        known = bot_parameters(parsed.without_options) if parsed.scheme == BOT else {}
    except ValueError:
        return name
    own = "&".join(f"{key}={value}" for key, value in parsed.options.items() if key in known)
    return f"{parsed.without_options}?{own}" if own else parsed.without_options


def expand_seed_ranges(names: Sequence[str]) -> list[str]:
    """Every name, with `seed=A..B` for each seed from A to B: `bot:rules?seed=0..9` is ten.

    Raises ValueError where B is less than A, or there are more than 10,000 of them.
    """
    spread: list[str] = []
    for name in names:
        if (found := _SEEDS.fullmatch(name)) is None:
            spread.append(name)
            continue
        before, low, high, after = found.groups()
        if int(low) > int(high):
            raise ValueError(f"{name}: expected seeds from the least to the greatest")
        if int(high) - int(low) >= _MAX_SEEDS:
            raise ValueError(f"{name}: expected at most {_MAX_SEEDS:,} seeds")
        spread += [f"{before}{seed}{after}" for seed in range(int(low), int(high) + 1)]
    return spread


@with_our_settings(prng=True)
def load_policy(path_or_name: str | Path, rules: Rules | None = None) -> Policy:
    """Loads an agent.

    Args:
        path_or_name: a bot, published weights, a policy folder, a run's folder (its `policy/`) or
            one `checkpoints/<step>`, each with or without options: see above.
        rules: the game to play: a bot plays it (default: the standard 2-player game), any other
            agent must be one of it.

    Returns:
        A `Policy`. Every stored parameter was verified with its SHA-256.

    Raises:
        ValueError: where there is no such agent, it takes no such setting, it plays another game,
            a parameter is no finite number, or its files are damaged or of another format.
        TypeError: what is given is neither a name nor a path, or no `Rules`.
    """
    if not isinstance(path_or_name, str | Path) or not isinstance(rules, Rules | None):
        raise TypeError(
            "expected the name or folder of an agent, and Rules or None, got "
            f"{type(path_or_name).__name__} and {type(rules).__name__}"
        )
    text = expand_home(str(path_or_name))
    name = parse_name(text)
    known = bot_parameters(name.without_options) if name.scheme == BOT else {}
    options = _options(text, name, known)
    if name.scheme == BOT:
        own = {
            key: read_value(value, known[key].type, where=f"{text}: {key}")
            for key, value in name.options.items()
            if key in known
        }
        policy: Policy = make_bot(name.without_options, rules or Rules(), **own)
    else:
        policy = (
            LOADERS[name.scheme](name.without_options) if name.scheme else _in_folder(name.path)
        )
        _check_finite(policy, text)
        if rules is not None and policy.rules != rules:
            raise ValueError(
                f"{text}: expected an agent for {rules.difference_from(policy.rules)}, got one for "
                f"{policy.rules.difference_from(rules)}"
            )
    for key, (value, settings) in options.items():
        try:
            policy = WRAPPER_OPTIONS[key].wrap(policy, value, **settings)
        except ValueError as error:
            raise ValueError(f"{text}: {key}: {error}") from error
    return policy


def _options(
    text: str, name: AgentName, known: Mapping[str, Any]
) -> dict[str, tuple[Any, dict[str, Any]]]:
    """The options of a name in order, each with its value and the settings that follow it; the
    settings of a bot, which are `known`, are none."""
    found: dict[str, tuple[Any, dict[str, Any]]] = {}
    settings: Mapping[str, Any] = {}
    for key, value in name.options.items():
        where = f"{text}: {key}"
        if key in known:
            continue
        if key in WRAPPER_OPTIONS:
            found[key] = read_value(value, WRAPPER_OPTIONS[key].type, where=where), {}
            settings = WRAPPER_OPTIONS[key].settings()
        elif key in settings:
            found[next(reversed(found))][1][key] = read_value(value, settings[key], where=where)
        elif key in RENAMED_OPTIONS:
            raise ValueError(f"{text}: {key} was renamed to {RENAMED_OPTIONS[key]}")
        else:
            raise ValueError(
                f"{text}: expected one of {_option_names({**known, **settings})}, got {key!r}"
            )
    return found


def read_value(text: str, kind: Any, *, where: str) -> Any:
    """`text` as a `kind`: str, int, float, bool (true or false), or a tuple of one of these
    (`0.6,0.1`, any length).

    Raises:
        ValueError: beginning with `where`, where it is none.
    """
    if get_origin(kind) is tuple:
        return tuple(read_value(part, get_args(kind)[0], where=where) for part in text.split(","))
    try:
        return {"true": True, "false": False}[text] if kind is bool else kind(text)
    except (ValueError, KeyError):
        raise ValueError(f"{where}: expected {kind.__name__}, got {text!r}") from None


def _check_finite(policy: Policy, text: str) -> None:
    """Raises ValueError for a parameter that is no finite number: such a network plays the first
    legal move, and says nothing."""
    for name, leaf in leaf_paths(getattr(policy, "params", {})).items():
        if not np.isfinite(leaf).all():
            raise ValueError(f"{text}: expected finite parameters, got others in {name}")


def _option_names(parameters: Mapping[str, Any]) -> str:
    return ", ".join([*parameters, *WRAPPER_OPTIONS])


def _in_folder(place: str) -> Policy:
    folder = Path(place)
    is_file = folder.suffix == SUFFIX and folder.is_file()
    policy = read_file(folder) if is_file else read_folder(folder)
    if policy is None:
        if (why := why_no_policy(folder)) is not None:
            raise ValueError(why)
        raise ValueError(
            "expected an agent: bot:NAME, agent:NAME, a policy's file, a policy folder (with "
            "a policy.safetensors), a run's folder (with a policy/), a checkpoints/<step>, "
            "ah2ac2:FILE, obl:FILE or hf:OWNER/NAME[/FILE][@REVISION]; got "
            f"{place}{'' if folder.exists() else ', which does not exist'}"
        )
    return policy


def load_agents(names: Sequence[str], num_players: int | None = None) -> list[Policy]:
    """Several agents for one game: bots play what the others were trained for.

    Args:
        names: as `load_policy` takes them; one named twice is the same object twice.
        num_players: of the game; None leaves it to the agents that play one game only (of bots
            alone: 2).

    Raises:
        ValueError: as `load_policy`, or agents of different games.
    """
    found: dict[str, Policy] = {
        name: load_policy(name) for name in dict.fromkeys(names) if parse_name(name).scheme != BOT
    }
    for name, policy in found.items():
        if num_players not in (None, policy.rules.num_players):
            raise ValueError(
                f"{name}: expected --players {policy.rules.num_players}, which it was trained for, "
                f"got {num_players}"
            )
    rules = next((p.rules for p in found.values()), Rules(num_players=num_players or 2))
    for name, policy in found.items():
        if policy.rules != rules:
            raise ValueError(
                f"expected agents of one game, got {next(iter(found))} for "
                f"{rules.difference_from(policy.rules)} and {name} for "
                f"{policy.rules.difference_from(rules)}"
            )
    for name in names:
        if name not in found:
            found[name] = load_policy(name, rules)
    return [found[name] for name in names]


def is_bundled_for(name: str, rules: Rules) -> bool:
    """Whether the agent comes with the package for this game: any bot, and an `agent:` that plays
    it."""
    parsed = parse_name(name)
    if parsed.scheme == BOT:
        return True
    path = bundled_files().get(parsed.path) if parsed.scheme == BUNDLED else None
    return path is not None and read_rules(path) == rules


def agent_catalog() -> dict[str, Any]:
    """What can be named, JSON-ready: `agents`, a record each, and the `options` that all take."""
    agents: list[dict[str, Any]] = [
        {
            "name": f"{BOT}:{name}",
            "version": bot.version,
            "about": " ".join((bot.__doc__ or "").split("\n\n")[0].split())
            .partition(". ")[0]
            .rstrip("."),
            "parameters": {
                key: {"type": found.type.__name__, "default": found.default}
                for key, found in bot_parameters(name).items()
            },
            "scores": bot_scores(name),
        }
        for name, bot in BOTS.items()
    ]
    agents += [
        {"name": f"{BUNDLED}:{name}", **read_card(path)} for name, path in bundled_files().items()
    ]
    agents += [
        {"name": "ah2ac2:FILE", "about": "published weights, a .safetensors file"},
        {"name": "obl:FILE", "about": "published weights, a .safetensors file"},
        {
            "name": "hf:OWNER/NAME[/FILE][@REVISION]",
            "about": "an agent on the Hugging Face Hub: an exported file, or published weights",
        },
        {"name": "FOLDER", "about": "a policy folder, a run or one checkpoints/<step>"},
        {"name": "FILE.safetensors", "about": "a policy's file, a run's or an exported one"},
    ]
    return {
        "agents": agents,
        "options": {name: option.about for name, option in WRAPPER_OPTIONS.items()},
    }
