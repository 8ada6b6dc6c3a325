"""Games by name: on the command line (`--game overcooked:cramped_room`), in presets and files."""

import dataclasses
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from hanabi_rl.games.game import Environment, Game
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.jaxmarl import JaxMARLGame
from hanabi_rl.games.overcooked.overcooked import Overcooked
from hanabi_rl.storage.dataclass_io import from_dict, subclasses
from hanabi_rl.storage.user_modules import OWN_CLASSES, import_user_modules
from hanabi_rl.storage.words import split_options

GAMES: dict[str, Any] = {"hanabi": Rules, "overcooked": Overcooked, "jaxmarl": JaxMARLGame}
"""Class of each game by name; a new game is added here. Subclasses of `Game` defined elsewhere are
found by name too, once their module is imported."""

if TYPE_CHECKING:
    # a `GameRules`; Hanabi's own code reads more of `Rules`
    GameField = Any
else:
    GameField = Annotated[Rules | Game, tyro.conf.AvoidSubcommands, tyro.conf.arg(name="")]
"""Field `game` of a config; its flags, without a prefix, are those of the default's class."""


def game_class(name: Any) -> Any:
    """Class of the game of that name. Raises ValueError for an unknown name."""
    import_user_modules()
    found = {cls.name: cls for cls in subclasses(Game) if "name" in vars(cls)} | GAMES
    if name not in [*found]:
        raise ValueError(
            f"expected a game, one of {', '.join(sorted(found))}, got {name!r}; {OWN_CLASSES}"
        )
    return found[name]


def make_env(rules: Any) -> Environment:
    """Environments of a game."""
    if isinstance(rules, Rules):
        from hanabi_rl.games.hanabi.hanabi import HanabiEnv  # configs and files need names only

        return HanabiEnv(**dataclasses.asdict(rules))
    env: Environment = rules.make_env()
    return env


def game_from_text(text: str, default: Any = None) -> Any:
    """Game of `NAME` or `NAME:VARIANT` (a kitchen of Overcooked, an environment of jaxmarl), each
    with or without parameters: `hanabi?num_players=3&num_ranks=2`. Other parameters are those of
    `default`, if that is the same game. Raises ValueError for an unknown game, variant or parameter
    and for a value out of range."""
    named, options = split_options(text)
    name, colon, variant = named.partition(":")
    cls = game_class(name)
    field: str = getattr(cls, "variant", "")
    if colon and not field:
        raise ValueError(f"expected {name} without a variant, got {text!r}")
    if colon and field in options:
        raise ValueError(f"{text}: expected {field} once, got it twice")
    base = default if type(default) is cls else cls()
    parameters = {key: _value(value) for key, value in options.items()}
    if colon:
        parameters[field] = variant
    return from_dict(cls, parameters, base, where=name)


def game_from_flag(text: str, default: Any = None) -> Any:
    """`game_from_text` of the flag `--game`, which its errors name."""
    try:
        return game_from_text(text, default)
    except ValueError as error:
        raise ValueError(f"--game: {error}") from error


def _value(text: str) -> Any:
    """Value of a parameter: a number, a list, `true`, `false`, `null`, or the text itself."""
    try:
        return json.loads({"True": "true", "False": "false", "None": "null"}.get(text, text))
    except (ValueError, RecursionError):
        return text


def game_to_text(rules: Any) -> str:
    """`NAME` or `NAME:VARIANT` of a game, see `game_from_text`; of Hanabi also what differs from
    the standard game of its number of players: `hanabi?num_ranks=2`."""
    if isinstance(rules, Rules) and not rules.is_standard:
        fields = rules.differing_fields(Rules(num_players=rules.num_players))
        options = (f"{of}={json.dumps(getattr(rules, of), separators=(',', ':'))}" for of in fields)
        return f"{rules.name}?{'&'.join(options)}"
    field: str = getattr(rules, "variant", "")
    return f"{rules.name}:{getattr(rules, field)}" if field else str(rules.name)


def game_label(rules: Any) -> str:
    """A game in titles: `3 players`, `2 players, 2 ranks and hands of 3`; other games by
    `game_to_text`."""
    if not isinstance(rules, Rules):
        return game_to_text(rules)
    players = f"{rules.num_players} players"
    if rules.is_standard:
        return players
    return f"{players}, {rules.difference_from(Rules(num_players=rules.num_players))}"


def game_to_dict(rules: Any) -> dict[str, Any]:
    """`name` and parameters of a game, for files and identities."""
    return {"name": rules.name, **dataclasses.asdict(rules)}


def game_from_dict(spec: Mapping[str, Any], where: str) -> Any:
    """Inverse of `game_to_dict`. Raises ValueError with `where`."""
    parameters = dict(spec)
    try:
        cls = game_class(parameters.pop("name"))
    except ValueError as error:
        raise ValueError(f"{where}.name: {error}") from error
    return from_dict(cls, parameters, where=where)
