"""Registry of the bundled bots."""

from __future__ import annotations

import importlib
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hanabi_rl.storage.files import read_json
from hanabi_rl.storage.words import did_you_mean

if TYPE_CHECKING:
    from hanabi_rl.agents.bots.base import Bot


class _Bots(Mapping[str, "type[Bot]"]):
    """Mapping that lists names without importing the bots."""

    def __init__(self, *places: tuple[str, str, str]) -> None:
        self.places = {name: (module, bot) for name, module, bot in places}

    def __getitem__(self, name: str) -> type[Bot]:
        module, bot = self.places[name]
        found: type[Bot] = getattr(importlib.import_module(f"{__package__}.{module}"), bot)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


BOTS = _Bots(
    ("random", "random", "RandomBot"),
    ("convention", "convention", "ConventionBot"),
    ("simple", "odwyer", "SimpleBot"),
    ("value", "odwyer", "ValueBot"),
    ("holmes", "odwyer", "HolmesBot"),
    ("smart", "odwyer", "SmartBot"),
    ("info", "odwyer", "InfoBot"),
    ("internal", "rule_lists", "Internal"),
    ("outer", "rule_lists", "Outer"),
    ("iggi", "rule_lists", "Iggi"),
    ("piers", "rule_lists", "Piers"),
    ("van-den-bergh", "rule_lists", "VanDenBergh"),
    ("flawed", "rule_lists", "Flawed"),
    ("legal-random", "rule_lists", "LegalRandom"),
    ("jaxaht-iggi", "jaxaht", "JaxAHTIggi"),
    ("jaxaht-piers", "jaxaht", "JaxAHTPiers"),
    ("jaxaht-outer", "jaxaht", "JaxAHTOuter"),
    ("jaxaht-van-den-bergh", "jaxaht", "JaxAHTVanDenBergh"),
    ("jaxaht-flawed", "jaxaht", "JaxAHTFlawed"),
    ("rules", "rule_family", "RuleFamilyBot"),
    ("random-rules", "random_rules", "RandomRulesBot"),
    ("errand", "errand", "ErrandBot"),
    ("still", "errand", "StillBot"),
)
"""Name, module of this folder and class of each bot; a module is imported on first use."""


SCORES_FILE = Path(__file__).parent / "scores.json"
"""Results of `python benchmarks/bots.py --write yes`."""


RENAMED_PARAMETERS = {
    "trusts": "trusts_hints",
    "rash": "plays_hinted",
    "exact": "exact_hints",
    "gambles": "plays_at_deck_end",
}
"""Old names of parameters, in commands of older cards and runs and still accepted -> current names.
The identity of a bot hashes the old names, so that renaming a parameter changes no identity."""


class Parameter(NamedTuple):
    """A parameter of a bot."""

    type: Any
    default: Any


def make_bot(name: str, rules: Any, **parameters: Any) -> Bot:
    """Make a bot (`random` or `bot:random`); raises ValueError for a wrong name, parameter or
    value, or another game than the bot's."""
    if (game := _find(name).game) not in (None, rules.name):
        hint = "" if game == "hanabi" else f" (--game {game}:...)"
        raise ValueError(f"{name}: expected {game}, which it plays{hint}, got {rules.name}")
    known = bot_parameters(name)
    parameters = {RENAMED_PARAMETERS.get(key, key): value for key, value in parameters.items()}
    for key in parameters:
        if key not in known:
            raise ValueError(
                f"{name}: expected a parameter ({', '.join(known) or 'it has none'}), got {key!r}"
                f"{did_you_mean(key, known)}"
            )
    try:
        return _find(name).make(rules, **parameters)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def bot_parameters(name: str) -> dict[str, Parameter]:
    """Parameters of a bot by name; raises ValueError as `make_bot`."""
    return parameters_of(_find(name))


def parameters_of(bot: type[Bot]) -> dict[str, Parameter]:
    """Parameters of a bot's class by name."""
    types = typing.get_type_hints(bot)
    return {
        field.name: Parameter(types[field.name], field.default) for field in bot.parameter_fields()
    }


def bot_scores(name: str) -> dict[str, Any]:
    """Self-play results of a bot with default parameters, by number of players ("2" to "5"):
    `games`, `mean` with `ci95`, `points`, rates `zero` and `perfect`. Empty if another version was
    measured."""
    measured = read_json(SCORES_FILE).get(name, {})
    return dict(measured["scores"]) if measured.get("version") == _find(name).version else {}


def _find(name: str) -> type[Bot]:
    bare = name.removeprefix("bot:")
    if bare not in BOTS:
        names = [f"bot:{known}" for known in BOTS]
        raise ValueError(
            f"expected one of {', '.join(names)}, got {name!r}{did_you_mean(f'bot:{bare}', names)}"
        )
    return BOTS[bare]
