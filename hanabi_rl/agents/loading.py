"""Agents by name: the parser of every command, the cross-play matrix and the cache.

    bot:NAME                     a bot of `agents/bots/`; ?parameter=value&... sets its parameters
    agent:NAME                   a trained agent bundled with the package
    ah2ac2:FILE, obl:FILE        published weights
    hf:OWNER/NAME[/FILE][@REV]   an agent on the Hugging Face Hub
    python:FILE.py:CLASS         your class, also package.module:CLASS; ?parameter=value&...
    process:COMMAND              your program
    FOLDER                       a policy folder, a run's folder or a checkpoints/<step>
    FILE.safetensors             a policy file, of a run or of `hanabi-rl export`

Every agent takes options, `AGENT?option=value&...`, which wrap it in the given order:
`WRAPPER_OPTIONS`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.bots.registry import (
    BOTS,
    RENAMED_PARAMETERS,
    Parameter,
    bot_parameters,
    bot_scores,
    make_bot,
)
from hanabi_rl.agents.hub import load_from_hub
from hanabi_rl.agents.policy import Policy, runs_on_host
from hanabi_rl.agents.policy_file import (
    SUFFIX,
    bundled_files,
    load_bundled,
    read_card,
    read_file,
    read_rules,
)
from hanabi_rl.agents.policy_folder import read_folder, why_no_policy
from hanabi_rl.agents.published import load_published
from hanabi_rl.agents.python_agent import (
    entry_point_names,
    make_process_agent,
    make_python_agent,
    python_parameters,
)
from hanabi_rl.agents.search.config import option_types, search_config
from hanabi_rl.games.game import Game
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.registry import game_from_flag
from hanabi_rl.storage.files import expand_home
from hanabi_rl.storage.jax_settings import with_fixed_settings
from hanabi_rl.storage.renamed_fields import RENAMED_OPTIONS
from hanabi_rl.storage.trees import leaf_paths
from hanabi_rl.storage.validation import seed_range
from hanabi_rl.storage.words import did_you_mean, split_options

BOT = "bot"
BUNDLED = "agent"
HUB = "hf"
LOADERS: dict[str, Callable[[str], Policy]] = {
    BUNDLED: load_bundled,
    "ah2ac2": load_published,
    "obl": load_published,
    HUB: load_from_hub,
}
"""Scheme of an agent for one game -> its loader, which takes the name without options."""


class Maker(NamedTuple):
    """Source of agents that play any game."""

    make: Callable[..., Policy]
    """(name without options, rules, parameters by keyword) -> policy."""
    parameters: Callable[[str], Mapping[str, Parameter]]
    """Name without options -> the parameters that it takes as options."""


PYTHON = "python"
MAKERS: dict[str, Maker] = {
    BOT: Maker(make_bot, bot_parameters),
    PYTHON: Maker(make_python_agent, python_parameters),
    "process": Maker(make_process_agent, lambda name: {}),
}
"""Scheme of agents that play any game -> their source."""


OTHER_GAME = "; `hanabi-rl agents` lists agents by game; bots play with any number of players"
"""End of errors about agents of different games or numbers of players."""

_SEEDS = re.compile(r"(.*[?&]seed=)(\d+)\.\.(\d+)(|&.*)")


class WrapperOption(NamedTuple):
    """A wrapper that any agent can have."""

    type: Any
    """Type of its value, as in `read_value`."""
    wrap: Callable[..., Policy]
    """(policy, value) -> wrapped policy; `settings` are keyword arguments."""
    about: str
    settings: Callable[[], Mapping[str, Any]] = dict
    """Settings that may follow the option in a name -> their types."""


def _permute_colors(policy: Policy, colors: tuple[int, ...]) -> Policy:
    if sorted(colors) != list(range(policy.rules.num_colors)):
        raise ValueError(
            f"expected a permutation of the colours 0 to {policy.rules.num_colors - 1}, got "
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
            "expected two probabilities from 0 to 1, on the last life and before it, got "
            f"{','.join(map(str, min_probs))}"
        )
    from hanabi_rl.agents.safety_filter import SafetyFilter

    return SafetyFilter(policy, min_prob_last_life=min_probs[0], min_prob=min_probs[1])


def _set_temperature(policy: Policy, temperature: float) -> Policy:
    # outside this range a legal logit overflows float32 or falls below that of an illegal action
    if not 1e-6 <= temperature <= 1e6:
        raise ValueError(f"expected a number from 0.000001 to 1,000,000, got {temperature}")
    from hanabi_rl.agents.tempered import Tempered

    return Tempered(policy, temperature=temperature)


def _avoid_standing(policy: Policy, steps: int) -> Policy:
    num_actions = policy.rules.num_actions
    if not 1 <= steps < num_actions:  # at least one action remains
        raise ValueError(f"expected a number of steps from 1 to {num_actions - 1}, got {steps}")
    if not getattr(policy.rules, "last_action", False):
        raise ValueError(
            "expected an agent of Overcooked that observes its last action (--last-action)"
        )
    from hanabi_rl.agents.unstuck import Unstuck

    return Unstuck(policy, steps=steps)


def _with_search(
    policy: Policy, preset: str, partner_model: str | None = None, **settings: Any
) -> Policy:
    from hanabi_rl.agents.search.search_policy import with_search

    names = [] if partner_model is None else partner_model.split("+")
    models = [load_policy(name, policy.rules) for name in names]
    if any(map(runs_on_host, (policy, *models))):
        raise ValueError("expected policies in JAX, got plain Python or a program")
    return with_search(policy, models, search_config(preset, settings))


def _search_settings() -> dict[str, Any]:
    return {**option_types(), "partner_model": str}


def _preload_profile(policy: Policy, setting: tuple[str, ...]) -> Policy:
    path, *seat = setting
    if len(seat) > 1 or not all(text.isdecimal() for text in seat):
        raise ValueError(
            f"expected a file of games, FILE, or with the partner's seat, FILE,SEAT; got "
            f"{','.join(setting)}"
        )
    from hanabi_rl.agents.preloaded_profile import preload_profile

    return preload_profile(policy, path, *map(int, seat))


WRAPPER_OPTIONS: dict[str, WrapperOption] = {
    "colors": WrapperOption(
        tuple[int, ...],
        _permute_colors,
        "colors=1,0,2,3,4: colour permutation; the agent sees colour i as the i-th entry",
    ),
    "gullible": WrapperOption(
        int,
        _make_gullible,
        "gullible=2: always play the oldest hinted card; gullible=1: the oldest hinted card that "
        "can be playable",
    ),
    "noise": WrapperOption(
        float,
        _add_noise,
        "noise=0.1: a uniformly random legal move with probability 0.1 when moves are sampled; "
        "greedy play is unchanged",
    ),
    "partner_games": WrapperOption(
        tuple[str, ...],
        _preload_profile,
        "partner_games=games.safetensors: preload the partner's profile from the human seats of "
        "these games (from every seat if none is marked); partner_games=games.safetensors,1: from "
        "seat 1",
    ),
    "safe": WrapperOption(
        tuple[float, ...],
        _filter_plays,
        "safe=0.6,0.1: play no card whose probability of being playable, by card counting, is "
        "below 0.6 on the last life or 0.1 before it",
    ),
    "search": WrapperOption(
        str,
        _with_search,
        "search=fast: search before each move, with the other players modelled as the agent; "
        "search=strong: larger search; followed by partner_model=agent:A+agent:B: model them as "
        "the agent that fits their moves; lambda=0.3, num_rollouts=64, ...: see docs/search.md",
        _search_settings,
    ),
    "temperature": WrapperOption(
        float,
        _set_temperature,
        "temperature=1.5: divide the logits by 1.5; greedy play is unchanged (but stochastic bots "
        "become more deterministic below 1)",
    ),
    "unstuck": WrapperOption(
        int,
        _avoid_standing,
        "unstuck=3: in Overcooked, after 3 steps at one place in one direction exclude the last 3 "
        "actions",
    ),
}
"""All options; a new wrapper needs its class, a function that imports it, and an entry here."""


class AgentName(NamedTuple):
    """A parsed name, not looked up yet."""

    scheme: str
    """Text before the colon (`bot`, `ah2ac2`, ...); "" for a path."""
    path: str
    """Name of the bot, or path of the file or folder."""
    options: Mapping[str, str]
    """Options after the question mark, in order."""

    @property
    def without_options(self) -> str:
        """The name without its options."""
        return f"{self.scheme}:{self.path}" if self.scheme else self.path


def parse_name(name: str) -> AgentName:
    """Parse a name; raises ValueError for options that are not key=value or repeat a key."""
    plain, options = split_options(name)
    scheme, colon, path = plain.partition(":")
    if not colon or scheme not in (*MAKERS, *LOADERS):
        scheme, path = "", plain
    if scheme == BOT:
        options = {RENAMED_PARAMETERS.get(key, key): value for key, value in options.items()}
    return AgentName(scheme, path, options)


def plays_any_game(name: str) -> bool:
    """True for a bot and the user's own agents, which are made for a game; other agents have
    theirs."""
    return parse_name(name).scheme in MAKERS


def _parameters(name: AgentName) -> Mapping[str, Parameter]:
    maker = MAKERS.get(name.scheme)
    return {} if maker is None else maker.parameters(name.without_options)


def strip_options(name: str) -> str:
    """Remove the options of `name`, but not a bot's parameters: `bot:rules?seed=3&noise=0.1` ->
    `bot:rules?seed=3`. Text that is not an agent's name is returned unchanged."""
    try:
        parsed = parse_name(name)
        known = _parameters(parsed)
    except ValueError:
        return name
    own = "&".join(f"{key}={value}" for key, value in parsed.options.items() if key in known)
    return f"{parsed.without_options}?{own}" if own else parsed.without_options


def expand_seed_ranges(names: Sequence[str]) -> list[str]:
    """Expand `seed=A..B` in names to one name per seed: `bot:rules?seed=0..9` -> ten names.

    Raises ValueError as `seed_range`.
    """
    spread: list[str] = []
    for name in names:
        if (found := _SEEDS.fullmatch(name)) is None:
            spread.append(name)
            continue
        before, low, high, after = found.groups()
        spread += [f"{before}{seed}{after}" for seed in seed_range(low, high, name)]
    return spread


@with_fixed_settings(prng=True)
def load_policy(path_or_name: str | Path, rules: Any = None) -> Policy:
    """Load an agent.

    Args:
        path_or_name: a name as in the module, with or without options; of a run's folder, its
            `policy/`.
        rules: the game. A bot plays it (default: the standard 2-player game); other agents must
            have been trained for it.

    Returns:
        A `Policy`; every stored parameter is verified with its SHA-256.

    Raises:
        ValueError: no such agent, unknown option, another game, a parameter that is not finite, or
            files that are damaged or of another format.
        TypeError: `path_or_name` is neither a name nor a path, or `rules` is not a game.
    """
    if not isinstance(path_or_name, str | Path) or not isinstance(rules, Rules | Game | None):
        raise TypeError(
            "expected the name or path of an agent, and a game or None, got "
            f"{type(path_or_name).__name__} and {type(rules).__name__}"
        )
    text = expand_home(str(path_or_name))
    name = parse_name(text)
    known = _parameters(name)
    options = _options(text, name, known)
    if (maker := MAKERS.get(name.scheme)) is not None:
        own = {
            key: read_value(value, known[key].type, where=f"{text}: {key}")
            for key, value in name.options.items()
            if key in known
        }
        policy = maker.make(name.without_options, rules or Rules(), **own)
    else:
        policy = (
            LOADERS[name.scheme](name.without_options) if name.scheme else _in_folder(name.path)
        )
        _check_finite(policy, text)
    if rules is not None and policy.rules != rules:
        raise ValueError(
            f"{text}: expected an agent for {rules.difference_from(policy.rules)}, got one for "
            f"{policy.rules.difference_from(rules)}{OTHER_GAME}"
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
    """Options of a name, each with its value and settings; `known`: a bot's parameters."""
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
            names = [*known, *settings, *WRAPPER_OPTIONS]
            raise ValueError(
                f"{text}: expected one of {', '.join(names)}, got {key!r}{did_you_mean(key, names)}"
            )
    return found


def read_value(text: str, kind: Any, *, where: str) -> Any:
    """Parse a str, int, float, bool (true or false), or tuple of one of them (`0.6,0.1`).

    Raises ValueError, with a message that begins with `where`, for other text.
    """
    if get_origin(kind) is tuple:
        return tuple(read_value(part, get_args(kind)[0], where=where) for part in text.split(","))
    try:
        return {"true": True, "false": False}[text] if kind is bool else kind(text)
    except (ValueError, KeyError):
        raise ValueError(f"{where}: expected {kind.__name__}, got {text!r}") from None


def _check_finite(policy: Policy, text: str) -> None:
    """Raise ValueError for inf or NaN, with which a network plays the first legal move."""
    for name, leaf in leaf_paths(getattr(policy, "params", {})).items():
        if not np.isfinite(leaf).all():
            raise ValueError(f"{text}: expected finite parameters, got inf or NaN in {name}")


def _in_folder(place: str) -> Policy:
    folder = Path(place)
    is_file = folder.suffix == SUFFIX and folder.is_file()
    policy = read_file(folder) if is_file else read_folder(folder)
    if policy is None:
        if (why := why_no_policy(folder)) is not None:
            raise ValueError(why)
        raise ValueError(
            "expected an agent: bot:NAME, agent:NAME, a policy file, a policy folder (with "
            "a policy.safetensors), a run's folder (with a policy/), a checkpoints/<step>, "
            "ah2ac2:FILE, obl:FILE, hf:OWNER/NAME[/FILE][@REVISION], python:FILE.py:CLASS or "
            f"process:COMMAND; got {place}{'' if folder.exists() else ', which does not exist'}"
            f"{_suggestion(place)}"
        )
    return policy


def _suggestion(place: str) -> str:
    """`; did you mean python:FILE.py:CLASS?` or a known name; "" without a similar one."""
    file, colon, _ = place.partition(".py:")
    if colon and Path(f"{file}.py").is_file():
        return f"; did you mean {PYTHON}:{place}?"
    return did_you_mean(place, _known_names())


def _known_names() -> list[str]:
    """Names of bots and bundled agents."""
    schemes = {BOT: BOTS, BUNDLED: bundled_files()}
    return [f"{scheme}:{name}" for scheme, names in schemes.items() for name in names]


def load_agents(
    names: Sequence[str], num_players: int | None = None, game: str | None = None
) -> list[Policy]:
    """Load agents for one game; agents that play any game get that of the others.

    `num_players` None: the number of the trained agents, or 2 if all are bots. `game`: `NAME` or
    `NAME:VARIANT`; None: the trained agents' game, or Hanabi if all are bots. A repeated name is
    the same object. Raises ValueError as `load_policy`, or for agents of different games.
    """
    found: dict[str, Policy] = {
        name: load_policy(name) for name in dict.fromkeys(names) if not plays_any_game(name)
    }
    for name, policy in found.items():
        if num_players not in (None, policy.rules.num_players):
            raise ValueError(
                f"{name}: expected --players {policy.rules.num_players}, which it was trained for, "
                f"got {num_players}{OTHER_GAME}"
            )
    rules = game_of_flags(num_players, game, next((p.rules for p in found.values()), None))
    for name, policy in found.items():
        if game is not None and policy.rules != rules:
            raise ValueError(
                f"--game: expected {policy.rules.difference_from(rules)}, which {name} was trained "
                f"for, got {rules.difference_from(policy.rules)}"
            )
        if policy.rules != rules:
            raise ValueError(
                f"expected agents of one game, got {next(iter(found))} for "
                f"{rules.difference_from(policy.rules)} and {name} for "
                f"{policy.rules.difference_from(rules)}{OTHER_GAME}"
            )
    for name in names:
        if name not in found:
            found[name] = load_policy(name, rules)
    return [found[name] for name in names]


def game_of_flags(num_players: int | None, game: str | None, default: Any = None) -> Any:
    """Game of `--players` and `--game`, either of them None if not given; parameters that they do
    not name are those of `default`, otherwise of the standard game. Raises ValueError if the flags
    contradict each other, and as `game_from_flag`."""
    rules = default or Rules(num_players=num_players or 2)
    if game is None:
        return rules
    rules = game_from_flag(game, rules)
    if num_players not in (None, rules.num_players):
        raise ValueError(f"--players: expected {rules.num_players} in {game}, got {num_players}")
    return rules


def is_bundled_for(name: str, rules: Rules) -> bool:
    """True for a bot, and for a bundled agent of this game."""
    parsed = parse_name(name)
    if parsed.scheme == BOT:
        return True
    path = bundled_files().get(parsed.path) if parsed.scheme == BUNDLED else None
    return path is not None and read_rules(path) == rules


def agent_catalog() -> dict[str, Any]:
    """All agents and options, JSON-ready: `agents`, one record each, and `options`."""
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
            "about": "an exported file or published weights on the Hugging Face Hub",
        },
        {"name": "FOLDER", "about": "a policy folder, a run or a checkpoints/<step>"},
        {"name": "FILE.safetensors", "about": "a policy file, of a run or exported"},
        {
            "name": "python:FILE.py:CLASS",
            "about": "your class, with its parameters as options: a hanabi_rl.Bot in JAX, or plain "
            "Python with act(view)",
        },
        {"name": "process:COMMAND", "about": "your program, with messages as lines of JSON"},
        *({"name": name, "about": "of an installed package"} for name in entry_point_names()),
    ]
    return {
        "agents": agents,
        "options": {name: option.about for name, option in WRAPPER_OPTIONS.items()},
    }
