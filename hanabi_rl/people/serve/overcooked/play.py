"""Games of Overcooked on one machine: `KitchenPlay` makes and saves them, `Replays` reads them."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from hanabi_rl.agents.policy import Policy
from hanabi_rl.games.overcooked.overcooked import Overcooked
from hanabi_rl.games.overcooked.recorded_games import (
    GameOrigin,
    RecordedGames,
    load_recorded_games,
    replay_games,
    save_recorded_games,
)
from hanabi_rl.games.overcooked.render import CELL, PLAYER_LOOKS, scene_svg, terrain_svg
from hanabi_rl.games.overcooked.state import unpack_scene
from hanabi_rl.games.overcooked.transitions import ACTION_NAMES, STAY
from hanabi_rl.people.serve.overcooked.game import AgentSeat, KitchenGame
from hanabi_rl.people.serve.overcooked.record import STEPS_PER_S, KitchenRecord

UNFINISHED = "unfinished"
"""Folder of games that ended before their last step."""


class KitchenPlay:
    """Games of one person and one agent.

    Args:
        agent: the agent in the other seat, a policy of Overcooked; its kitchen is played.
        name: the agent's name.
        folder: folder of saved games.
        seat: the person's seat; None: the number of the game modulo 2.
        seed: seed of the agent's sampled actions; each game adds 1. None: random.
        horizon: steps of a game; None: as in the agent's game.
        steps_per_s: steps per second.

    Raises:
        ValueError: a seat other than 0 and 1, or a horizon outside 1 to 4095.
    """

    def __init__(
        self,
        agent: Policy,
        name: str,
        folder: Path,
        *,
        seat: int | None = None,
        seed: int | None = None,
        horizon: int | None = None,
        steps_per_s: float = STEPS_PER_S,
    ) -> None:
        if seat not in (None, 0, 1):
            raise ValueError(f"--seat: expected 0 or 1, got {seat}")
        self.rules: Overcooked = agent.rules.replace(horizon=horizon or agent.rules.horizon)
        self.kitchen, self.agent, self.name, self.folder = self.rules.layout, agent, name, folder
        self.seat, self.steps_per_s = seat, steps_per_s
        self._seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
        self._started = self._last_id = 0
        self._pool = ThreadPoolExecutor(4)

    def warm_up(self) -> None:
        """Compile the programs of a game: agent, step, replay."""
        compile_game(self.agent, self.rules)

    def new_game(self) -> tuple[KitchenGame, AgentSeat]:
        """Prepare the next game; the agent begins to compute its first action."""
        self._last_id = max(time.time_ns() // 1000, self._last_id + 1)
        seat = self._started % 2 if self.seat is None else self.seat
        seed = (self._seed + self._started) % 2**32
        game = KitchenGame(self._last_id, self.rules, seat, seed)
        agent = AgentSeat(self.agent, game, self._pool)
        agent.ask()
        return game, agent

    def start(self, game: KitchenGame) -> None:
        """The game begins: the next one has the next number."""
        self._started += 1
        game.game_id = self._last_id = max(time.time_ns() // 1000, self._last_id + 1)

    def save(self, game: KitchenGame) -> Path | None:
        """Write a game that has ended, read it back and replay it; None if no step was made.

        Raises:
            OvercookedDataError: the replay differs from the game.
        """
        if not game.actions:
            return None
        path = self._path(game.game_id, finished=game.over)
        save_recorded_games(path, self._recorded(game))
        load_recorded_games(path)
        return path

    def find(self, game_id: int) -> RecordedGames:
        """Load a saved game. Raises KeyError."""
        for finished in (True, False):
            path = self._path(game_id, finished=finished)
            if path.is_file():
                return load_recorded_games(path)
        raise KeyError(game_id)

    def _path(self, game_id: int, *, finished: bool) -> Path:
        folder = self.folder if finished else self.folder / UNFINISHED
        return folder / f"{self.kitchen.name}-{game_id}.safetensors"

    def _recorded(self, game: KitchenGame) -> RecordedGames:
        record = game.record(self.steps_per_s)
        return recorded_games([record], [(self.name, self.agent.identity())])


def compile_game(agent: Policy, rules: Overcooked) -> None:
    """Compile the programs of a game: agent, step, replay."""
    game = KitchenGame(0, rules, 0)
    seat = AgentSeat(agent, game)
    for step in range(2):  # two programs: the types of the first carry differ
        game.step(seat.answer(game.state, step))
    stays = dataclasses.replace(
        game.record(1.0), moves=((STAY, STAY),) * rules.horizon, rewards=(0,) * rules.horizon
    )
    replay_games(recorded_games([stays], [("", "")]))


def recorded_games(
    records: Sequence[KitchenRecord],
    agents: Sequence[tuple[str, str]],
    people: Sequence[int] = (0,),
) -> RecordedGames:
    """Join games of people and agents.

    Args:
        records: N games with moves.
        agents: name and identity of the agent of each game.
        people: person of each game, as `RecordedGames.pairs`.
    """
    kitchens = tuple(dict.fromkeys(record.kitchen for record in records))
    return RecordedGames(
        kitchens=kitchens,
        layout=np.array([kitchens.index(record.kitchen) for record in records], np.uint8),
        starts=np.array([record.starts for record in records], np.uint8),
        lengths=np.array([len(record.moves) for record in records], np.int32),
        actions=np.array([step for record in records for step in record.moves], np.uint8),
        scores=np.array([record.score for record in records], np.int32),
        pairs=np.array(people, np.int32),
        is_test=np.zeros(len(records), bool),
        rewards=np.array([points for record in records for points in record.rewards], np.uint8),
        human_seats=np.array([np.arange(2) == record.seat for record in records]),
        origins=tuple(_origin(*each) for each in zip(records, agents, strict=True)),
    )


def _origin(record: KitchenRecord, agent: tuple[str, str]) -> GameOrigin:
    name, identity = (tuple("" if s == record.seat else text for s in (0, 1)) for text in agent)
    return GameOrigin(
        game_id=record.game_id,
        agents=name,
        identities=identity,
        seed=record.seed,
        steps_per_s=record.steps_per_s,
        late_actions=record.late_actions,
        dropped_presses=record.dropped_presses,
    )


Find = Callable[[int], RecordedGames]
"""Number of a game -> the game alone. Raises KeyError."""


def games_in(games: RecordedGames) -> Find:
    """Return the function that finds a game by its index in a file."""

    def find(game: int) -> RecordedGames:
        if not 0 <= game < len(games):
            raise KeyError(game)
        return games.select([game])

    return find


def seat_names(games: RecordedGames) -> list[str]:
    """Names of the players of the first game."""
    agents = games.origins[0].agents if games.origins else ("", "")
    is_human = [True, True] if games.human_seats is None else games.human_seats[0].tolist()
    return [
        "person" if human else name or "agent" for human, name in zip(is_human, agents, strict=True)
    ]


def replay_frames(games: RecordedGames) -> dict[str, Any]:
    """Replay of the first game for its page: pictures, points and actions of every step."""
    kitchen, replay = games.kitchen_of(0), replay_games(games)[0]
    length = int(games.lengths[0])
    return {
        "kitchen": kitchen.name.replace("_", " "),
        "box": f"0 0 {CELL * kitchen.width} {CELL * kitchen.height}",
        "terrain": terrain_svg(kitchen),
        "scenes": [
            scene_svg(unpack_scene(kitchen, replay.states, step)) for step in range(length + 1)
        ],
        "scores": [0, *np.cumsum(replay.rewards).tolist()],
        "actions": [[ACTION_NAMES[a] for a in pair] for pair in games.actions[:length].tolist()],
        "names": seat_names(games),
        "looks": PLAYER_LOOKS,
        "steps_per_s": games.origins[0].steps_per_s if games.origins else STEPS_PER_S,
    }
