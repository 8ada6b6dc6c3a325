"""`RecordedGames`: games of humans or agents as starts and actions, their file, and their replay.

The file is safetensors: `actions uint8[sum of lengths, P]` of all games one after the other,
`length`, `layout`, `pair`, `score`, `test [N]`, `start [N, P, 2]` as (x, y), and optionally
`reward uint8[sum of lengths]` and `human_seats bool[N, P]`. The metadata `layouts` names the
kitchens that `layout` numbers; `origins` is a JSON list of `GameOrigin`, one per game.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from hanabi_rl.games.overcooked.dynamics import SOUP_POINTS
from hanabi_rl.games.overcooked.kitchens import Kitchen, load_kitchen
from hanabi_rl.games.overcooked.state import MAX_STEPS, Scene, State, pack_scenes
from hanabi_rl.games.overcooked.traces import Traces
from hanabi_rl.games.overcooked.transitions import NUM_ACTIONS, STAY
from hanabi_rl.storage.tensors import read_metadata, read_tensors, write_tensors

FIRST_STEPS = 400
"""Length of the games that papers report."""


class OvercookedDataError(ValueError):
    """Recorded games that are not valid: names source, game, kitchen and step, what was expected
    and got."""

    def __init__(
        self,
        problem: str,
        source: str = "games",
        *,
        game: int | None = None,
        kitchen: str | None = None,
        step: int | None = None,
    ) -> None:
        self.game, self.kitchen, self.step = game, kitchen, step
        where = [source]
        if game is not None:
            where.append(f"game {game}" + ("" if kitchen is None else f" ({kitchen})"))
        if step is not None:
            where.append(f"step {step}")
        super().__init__(f"{', '.join(where)}: {problem}")


@dataclasses.dataclass(frozen=True)
class GameOrigin:
    """Players and circumstances of one recorded game."""

    game_id: int
    """Start of the game, microseconds since 1970."""
    agents: tuple[str, ...]
    """Name of the agent in each seat; empty for a person."""
    identities: tuple[str, ...]
    """Identity of the agent in each seat; empty for a person."""
    seed: int
    """Seed of the agents' sampled actions."""
    steps_per_s: float
    """Steps per second in real time."""
    late_actions: int = 0
    """Steps in which an agent was too slow and stayed."""
    dropped_presses: int = 0
    """Key presses of the person that arrived faster than steps and were replaced."""


@dataclasses.dataclass(frozen=True, eq=False)
class RecordedGames:
    """``N`` games of two players, as NumPy arrays. A game begins with empty hands, pots and
    counters, both players facing up."""

    kitchens: tuple[str, ...]
    """Names of kitchens, see `KITCHENS`."""
    layout: np.ndarray
    """uint8[N]: the game's kitchen, a number of `kitchens`."""
    starts: np.ndarray
    """uint8[N, P, 2]: (x, y) of each player at the start."""
    lengths: np.ndarray
    """int32[N]: steps of each game."""
    actions: np.ndarray
    """uint8[sum of lengths, P]: actions of all games, one game after the other."""
    scores: np.ndarray
    """int32[N]: points of each whole game."""
    pairs: np.ndarray
    """int32[N]: the pair of players; games of one pair are not independent."""
    is_test: np.ndarray
    """bool[N]: the game is in the test part of its source."""
    rewards: np.ndarray | None = None
    """uint8[sum of lengths]: points scored in each step; None where only scores are known."""
    human_seats: np.ndarray | None = None
    """bool[N, P]: a person played this seat; None: not recorded."""
    origins: tuple[GameOrigin, ...] = ()
    """Origin of each game; empty: not recorded."""

    def __len__(self) -> int:
        return len(self.lengths)

    def kitchen_of(self, game: int) -> Kitchen:
        """Kitchen of one game."""
        return load_kitchen(self.kitchens[self.layout[game]])

    def steps_of(self, game: int | np.integer) -> slice:
        """Rows of one game in `actions` and `rewards`."""
        end = int(self.lengths[: game + 1].sum())
        return slice(end - int(self.lengths[game]), end)

    def traces(self) -> Traces:
        """Return the games, all of one kitchen.

        Raises:
            ValueError: no games, or games of several kitchens.
        """
        played = [self.kitchens[number] for number in np.unique(self.layout)]
        if len(played) != 1:
            raise ValueError(f"expected games of one kitchen, got {', '.join(played) or 'none'}")
        kitchen = load_kitchen(played[0])
        actions = np.full((len(self), self.lengths.max(), 2), STAY, np.uint8)
        for game, length in enumerate(self.lengths):
            actions[game, :length] = self.actions[self.steps_of(game)]
        return Traces(kitchen, start_states(kitchen, self.starts), actions, self.lengths)

    def select(self, index: Sequence[int] | np.ndarray) -> RecordedGames:
        """Return the games at `index` (integers or booleans), in that order."""
        chosen = np.arange(len(self))[np.asarray(index)]
        rows = [np.arange(self.actions.shape[0])[self.steps_of(game)] for game in chosen]
        rows_of_all = np.concatenate([np.zeros(0, int), *rows])
        return dataclasses.replace(
            self,
            layout=self.layout[chosen],
            starts=self.starts[chosen],
            lengths=self.lengths[chosen],
            actions=self.actions[rows_of_all],
            scores=self.scores[chosen],
            pairs=self.pairs[chosen],
            is_test=self.is_test[chosen],
            rewards=None if self.rewards is None else self.rewards[rows_of_all],
            human_seats=None if self.human_seats is None else self.human_seats[chosen],
            origins=tuple(self.origins[game] for game in chosen) if self.origins else (),
        )


class Replay(NamedTuple):
    """Replay of one recorded game of ``T`` steps."""

    states: State
    """[T + 1] states: before each step, and at the end."""
    rewards: np.ndarray
    """int32[T]: points scored in each step."""


def replay_games(games: RecordedGames) -> list[Replay]:
    """Play every recorded game from its start by the rules."""
    replays: list[Replay | None] = [None] * len(games)
    for number in np.unique(games.layout):
        chosen = np.flatnonzero(games.layout == number)
        traces = games.select(chosen).traces()
        states = traces.states()
        for row, (game, length) in enumerate(zip(chosen, traces.lengths, strict=True)):
            one = jax.tree.map(lambda word, r=row, n=length: word[r, : n + 1], states)
            replays[game] = Replay(one, SOUP_POINTS * np.diff(one.soups))
    return [replay for replay in replays if replay is not None]


def start_states(kitchen: Kitchen, starts: np.ndarray) -> State:
    """States [N] at the start of games, from the players' places, integers [N, P, 2]."""
    return pack_scenes(kitchen, [Scene(((a, b), (c, d))) for (a, b), (c, d) in starts.tolist()])


def validate_games(games: RecordedGames, source: str = "games") -> list[Replay]:
    """Replay every game; return the replays.

    Raises:
        OvercookedDataError: the first game whose rewards or score differ from the replay, with the
            step where rewards are known.
    """
    replays = replay_games(games)
    for game, replay in enumerate(replays):
        name = games.kitchen_of(game).name
        if games.rewards is not None:
            recorded = games.rewards[games.steps_of(game)]
            for step in np.flatnonzero(recorded != replay.rewards)[:1]:
                raise OvercookedDataError(
                    f"expected {replay.rewards[step]} points by the rules, got {recorded[step]}",
                    source,
                    game=game,
                    kitchen=name,
                    step=int(step),
                )
        if (points := int(replay.rewards.sum())) != games.scores[game]:
            raise OvercookedDataError(
                f"expected a score of {points} by the rules, got {games.scores[game]}",
                source,
                game=game,
                kitchen=name,
            )
    return replays


def is_overcooked_file(path: Path) -> bool:
    """True for a safetensors file of these games, by its metadata."""
    if path.suffix != ".safetensors" or not path.is_file():
        return False
    try:
        return "layouts" in read_metadata(path)
    except ValueError:
        return False


def save_recorded_games(path: Path, games: RecordedGames) -> None:
    """Write the file atomically; equal games give equal bytes."""
    tensors = {
        "actions": games.actions,
        "length": games.lengths,
        "layout": games.layout,
        "pair": games.pairs,
        "score": games.scores,
        "start": games.starts,
        "test": games.is_test,
    }
    if games.rewards is not None:
        tensors["reward"] = games.rewards
    if games.human_seats is not None:
        tensors["human_seats"] = games.human_seats
    metadata = {"layouts": ",".join(games.kitchens), "game": "overcooked"}
    if games.origins:
        metadata["origins"] = json.dumps([dataclasses.asdict(origin) for origin in games.origins])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_tensors(path, tensors, metadata)


_AXES = {"actions": 2, "length": 1, "layout": 1, "pair": 1, "score": 1, "start": 3, "test": 1}
_OPTIONAL_AXES = {"reward": 1, "human_seats": 2}


def load_recorded_games(path: Path, validate: bool = True) -> RecordedGames:
    """Read a file of games and, with `validate`, replay every game.

    Raises:
        OvercookedDataError: another layout of the file, or a game that is not valid.
        FileNotFoundError: no such file.
    """
    source = str(path)
    if not path.is_file():
        raise FileNotFoundError(f"expected a file of games, got {path}, which does not exist")
    try:
        tensors, metadata = read_tensors(path)
    except ValueError as error:
        raise OvercookedDataError(f"expected a safetensors file, got: {error}", source) from error
    if "layouts" not in metadata:
        raise OvercookedDataError("expected metadata 'layouts', got none", source)
    optional = {name: axes for name, axes in _OPTIONAL_AXES.items() if name in tensors}
    for name, axes in (_AXES | optional).items():
        if name not in tensors:
            raise OvercookedDataError(f"expected tensor {name!r}, got {sorted(tensors)}", source)
        kinds = "b" if name in ("test", "human_seats") else "iu"
        if tensors[name].ndim != axes or tensors[name].dtype.kind not in kinds:
            raise OvercookedDataError(
                f"{name}: expected {'bool' if kinds == 'b' else 'integers'} with {axes} axes, got "
                f"{tensors[name].dtype} {tensors[name].shape}",
                source,
            )
    try:
        names = tuple(load_kitchen(name).name for name in metadata["layouts"].split(","))
    except ValueError as error:
        raise OvercookedDataError(str(error), source) from error
    num_games, lengths = len(tensors["length"]), tensors["length"].astype(np.int64)
    steps = int(lengths.sum())
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(
        ("layout", "pair", "score", "test"), (num_games,)
    )
    shapes |= {"actions": (steps, 2), "start": (num_games, 2, 2)}
    shapes |= {"reward": (steps,), "human_seats": (num_games, 2)}
    for name, shape in shapes.items():
        if name in tensors and tensors[name].shape != shape:
            raise OvercookedDataError(
                f"{name}: expected shape {shape}, got {tensors[name].shape}", source
            )
    games = RecordedGames(
        kitchens=names,
        layout=tensors["layout"].astype(np.uint8),
        starts=tensors["start"].astype(np.uint8),
        lengths=tensors["length"].astype(np.int32),
        actions=tensors["actions"].astype(np.uint8),
        scores=tensors["score"].astype(np.int32),
        pairs=tensors["pair"].astype(np.int32),
        is_test=tensors["test"],
        rewards=tensors["reward"].astype(np.uint8) if "reward" in tensors else None,
        human_seats=tensors.get("human_seats"),
        origins=_read_origins(metadata.get("origins", "[]"), num_games, source),
    )
    _check_ranges(games, tensors, source)
    if validate:
        validate_games(games, source)
    return games


def _read_origins(text: str, num_games: int, source: str) -> tuple[GameOrigin, ...]:
    try:
        records = json.loads(text)
        origins = tuple(
            GameOrigin(**{name: _tuples(value) for name, value in record.items()})
            for record in records
        )
    except (TypeError, ValueError, AttributeError) as error:
        raise OvercookedDataError(f"metadata 'origins': {error}", source) from error
    if len(origins) not in (0, num_games):
        raise OvercookedDataError(
            f"metadata 'origins': expected {num_games} games, got {len(origins)}", source
        )
    return origins


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _check_ranges(games: RecordedGames, tensors: dict[str, np.ndarray], source: str) -> None:
    """Raises OvercookedDataError for the first game with a number out of range."""
    for game in range(len(games)):
        layout, length = int(tensors["layout"][game]), int(tensors["length"][game])
        if not 0 <= layout < len(games.kitchens):
            raise OvercookedDataError(
                f"layout: expected 0 to {len(games.kitchens) - 1}, got {layout}", source, game=game
            )
        kitchen = games.kitchen_of(game)
        places = [tuple(place) for place in tensors["start"][game].tolist()]
        problem = None
        if not 1 <= length <= MAX_STEPS:
            problem = f"length: expected 1 to {MAX_STEPS} steps, got {length}"
        elif len(set(places)) != 2 or not set(places) <= set(kitchen.floor):
            problem = f"start: expected two floor cells, got {places}"
        if problem:
            raise OvercookedDataError(problem, source, game=game, kitchen=kitchen.name)
        actions = tensors["actions"][games.steps_of(game)]
        for step, player in np.argwhere((actions < 0) | (actions >= NUM_ACTIONS))[:1].tolist():
            raise OvercookedDataError(
                f"player {player}: expected an action in 0..{NUM_ACTIONS - 1}, got "
                f"{actions[step, player]}",
                source,
                game=game,
                kitchen=kitchen.name,
                step=step,
            )


def split_by_pair(
    games: RecordedGames, fractions: Sequence[float], seed: int
) -> list[RecordedGames]:
    """Return random parts with these fractions of the pairs of players; no pair is in two parts.

    Raises:
        ValueError: fractions that are not positive or do not add to 1, or a part without a pair.
    """
    if not (min(fractions, default=0) > 0 and abs(sum(fractions) - 1) <= 1e-6):
        raise ValueError(f"expected positive fractions that add to 1, got {tuple(fractions)}")
    pairs = np.random.default_rng(seed).permutation(np.unique(games.pairs))
    bounds = np.round(np.cumsum(fractions) * len(pairs)).astype(int)
    parts = np.split(pairs, bounds[:-1])
    for fraction, part in zip(fractions, parts, strict=True):
        if not len(part):
            raise ValueError(
                f"expected a pair in every part, got none for {fraction} of {len(pairs)} pairs"
            )
    return [games.select(np.isin(games.pairs, part)) for part in parts]


@dataclasses.dataclass(frozen=True)
class KitchenStatistics:
    """Statistics of the games of one kitchen."""

    kitchen: str
    """Name of the kitchen."""
    games: int
    """Number of games."""
    pairs: int
    """Number of pairs of players."""
    steps: int
    """Steps of all games."""
    first_points: float
    """Mean points in the first 400 steps of a game."""
    points_per_400: float
    """Points per 400 steps of all games."""
    stay_fraction: float
    """Fraction of decisions that are stay."""


def game_statistics(games: RecordedGames) -> list[KitchenStatistics]:
    """Return the statistics of each kitchen, in the order of `games.kitchens`; replays the
    games."""
    replays, rows = replay_games(games), []
    for number, name in enumerate(games.kitchens):
        chosen = np.flatnonzero(games.layout == number)
        if not len(chosen):
            continue
        actions = np.concatenate([games.actions[games.steps_of(game)] for game in chosen])
        rewards = [replays[game].rewards for game in chosen]
        rows.append(
            KitchenStatistics(
                kitchen=name,
                games=len(chosen),
                pairs=len(np.unique(games.pairs[chosen])),
                steps=len(actions),
                first_points=float(np.mean([r[:FIRST_STEPS].sum() for r in rewards])),
                points_per_400=float(FIRST_STEPS * np.concatenate(rewards).mean()),
                stay_fraction=float((actions == STAY).mean()),
            )
        )
    return rows


def describe_statistics(rows: Sequence[KitchenStatistics]) -> str:
    """Return the statistics as a table."""
    lines = [
        f"{'kitchen':<22}{'games':>6}{'pairs':>6}{'steps':>8}{'first 400':>10}{'per 400':>8}"
        f"{'stay':>7}"
    ]
    for row in rows:
        lines.append(
            f"{row.kitchen:<22}{row.games:>6}{row.pairs:>6}{row.steps:>8,}{row.first_points:>10.1f}"
            f"{row.points_per_400:>8.1f}{row.stay_fraction:>7.1%}"
        )
    return "\n".join(lines)
