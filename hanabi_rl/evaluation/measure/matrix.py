"""Cross-play matrix of agents, with a cache of the cells' games."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from hanabi_rl.agents.identity import check_distinct
from hanabi_rl.agents.loading import OTHER_GAME
from hanabi_rl.data.games import FinalStates, Games
from hanabi_rl.evaluation.measure.cells import Cell, CellCache, CellKey
from hanabi_rl.evaluation.measure.crossplay import evaluate_pair
from hanabi_rl.evaluation.measure.selfplay import ScoreSummary, summarise
from hanabi_rl.evaluation.measure.turn_masks import with_counted_seats
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.play.decks import evaluation_decks, seed_decks
from hanabi_rl.storage.compilation_cache import free_compiled_programs

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy


class MatrixAgent(NamedTuple):
    """Row and column of a matrix."""

    label: str
    """Short, unique label."""
    group: str
    """Group for comparison: the algorithm, or the bot's name."""
    policy: Policy
    hash: str
    """`Policy.identity`."""


class EvalSetting(NamedTuple):
    """Settings of every cell: `games` decks, each with every distinct seating."""

    games: int = 5000
    seed: int = 0
    """Seed of the decks (unless `seed_names` is set) and of sampled actions."""
    sample: bool = False
    seed_names: tuple[str, ...] = ()
    """Deal seeds of hanab.live (`seed_decks`), `games` in number; empty: decks of `seed`."""

    def of_game(self, rules: Any) -> EvalSetting:
        """The setting with `sample` as this game is played (`Game.is_greedy`)."""
        return self._replace(sample=self.sample or not rules.is_greedy)

    def named_decks(self, rules: Rules) -> np.ndarray | None:
        """Decks of `seed_names`, uint8[N, deck_size]; None without names."""
        if not self.seed_names:
            return None
        decks = seed_decks(rules, self.seed_names)
        if len(decks) != self.games:
            raise ValueError(f"expected games={len(decks)}, one per deal, got {self.games}")
        return decks


@dataclasses.dataclass(frozen=True)
class CrossPlayMatrix:
    """Row: single agent; column: other seats. For two players the matrix is symmetric; or, with
    `has_fixed_seats`, the row's agent is at seat 0 and the column's at seat 1."""

    agents: tuple[MatrixAgent, ...]
    setting: EvalSetting
    cells: tuple[tuple[ScoreSummary, ...], ...]  # [A][A]

    @property
    def rules(self) -> Any:
        """Rules of the game."""
        return self.agents[0].policy.rules

    @property
    def has_fixed_seats(self) -> bool:
        """See `has_fixed_seats`."""
        return has_fixed_seats(self.rules)

    @cached_property
    def means(self) -> np.ndarray:
        """Mean score of every cell, float64[A, A]."""
        return np.array([[cell.mean.mean for cell in row] for row in self.cells])


def has_fixed_seats(rules: Any) -> bool:
    """True if matrices keep the seats apart: for two players whose seats are not alike."""
    return rules.num_players == 2 and not rules.seats_alike


def make_agents(
    policies: Sequence[Policy], labels: Sequence[str], groups: Sequence[str]
) -> tuple[MatrixAgent, ...]:
    """Create the agents of a matrix. Raises ValueError for no agent, agents of different games, a
    repeated label, or one policy under two labels."""
    if not policies:
        raise ValueError("expected at least one agent, got none")
    agents = tuple(
        MatrixAgent(label=label, group=group, policy=policy, hash=identity)
        for policy, label, group, identity in zip(
            policies, labels, groups, check_distinct(policies, labels), strict=True
        )
    )
    for index, agent in enumerate(agents):
        rules, mine = agents[0].policy.rules, agent.policy.rules
        if mine != rules:
            raise ValueError(
                f"expected agents of one game, got {agents[0].label} for "
                f"{rules.difference_from(mine)} and {agent.label} for "
                f"{mine.difference_from(rules)}{OTHER_GAME}"
            )
        if agent.label in labels[:index]:
            raise ValueError(f"expected unique labels, got {agent.label!r} twice")
    return agents


def play_matrix(
    agents: tuple[MatrixAgent, ...],
    setting: EvalSetting,
    *,
    cache: CellCache | None = None,
    on_cell: Callable[[int, int, bool], None] = lambda done, total, played: None,
) -> CrossPlayMatrix:
    """Play the cells missing in `cache`, save each when it is finished, and summarise all cells.
    After an interruption a new call continues and gives the same numbers. on_cell: called after
    every cell with (cells done, number of cells, True if it was played)."""
    rules = agents[0].policy.rules
    pairs = cell_pairs(agents)
    summaries: dict[tuple[int, int], ScoreSummary] = {}
    for done, (i, j) in enumerate(pairs, start=1):
        cell, played = get_or_play_cell(agents[i], agents[j], setting, cache)
        for entry, seatings in _entries(cell, agents, i, j).items():
            summaries[entry] = summarise(
                cell.scores[seatings], cell.points[seatings], rules.max_score
            )
        on_cell(done, len(pairs), played)
    size = range(len(agents))
    return CrossPlayMatrix(
        agents, setting, tuple(tuple(summaries[i, j] for j in size) for i in size)
    )


def _entries(
    cell: Cell, agents: tuple[MatrixAgent, ...], row: int, column: int
) -> dict[tuple[int, int], Any]:
    """(row, column) of the matrix entries of a cell -> indices of their seatings."""
    rules, every = agents[row].policy.rules, slice(None)
    if rules.num_players > 2:
        return {(row, column): every}
    if not has_fixed_seats(rules) or row == column:
        return {(row, column): every, (column, row): every}
    is_first = agents[row].hash < agents[column].hash  # as in `CellKey.policies`
    seat = cell.seats if is_first else 1 - cell.seats
    return {(row, column): seat == 0, (column, row): seat == 1}


def cell_pairs(agents: tuple[MatrixAgent, ...]) -> list[tuple[int, int]]:
    """(row, column) of every cell to play; for two players only one of (i, j) and (j, i): the one
    with policies ordered by structure, so that each pair of structures compiles once."""
    kinds: list[Any] = []
    kind_of = []
    for agent in agents:
        kind = _structure(agent.policy)
        if kind not in kinds:
            kinds.append(kind)
        kind_of.append(kinds.index(kind))
    pairs = [(i, j) for i in range(len(agents)) for j in range(len(agents))]
    if agents[0].policy.rules.num_players > 2:
        return pairs
    return [(i, j) for i, j in pairs if (kind_of[i], i) <= (kind_of[j], j)]


def cell_key(single: MatrixAgent, others: MatrixAgent, setting: EvalSetting) -> CellKey:
    """Cache key of a cell."""
    rules = single.policy.rules
    named = setting.named_decks(rules)
    return CellKey(
        rules,
        single.hash,
        others.hash,
        setting.games,
        setting.seed,
        setting.sample,
        decks=None if named is None else hashlib.sha256(named.tobytes()).hexdigest(),
    )


def get_or_play_cell(
    single: MatrixAgent, others: MatrixAgent, setting: EvalSetting, cache: CellCache | None = None
) -> tuple[Cell, bool]:
    """Return the games of a cell, from `cache` or played and saved there; True if played."""
    key = cell_key(single, others, setting)
    cell = None if cache is None else cache.load(key)
    if cell is not None:
        return cell, False
    free_compiled_programs()
    cell = play_cell(single, others, setting)
    if cache is not None:
        cache.save(key, cell)
    return cell, True


def play_cell(single: MatrixAgent, others: MatrixAgent, setting: EvalSetting) -> Cell:
    """Play the games of one cell, as `evaluate_pair` does."""
    result = evaluate_pair(
        single.policy,
        others.policy,
        setting.games,
        setting.seed,
        sample=setting.sample,
        decks=setting.named_decks(single.policy.rules),
    )
    records, is_first = result.records, cell_key(single, others, setting).policies[0] == single.hash
    seats = np.array([seating[0 if is_first else 1] for seating in result.seatings], np.int8)
    if not isinstance(single.policy.rules, Rules):
        scores = np.stack([record.scores for record in records]).astype(np.float32)
        return Cell(
            scores=scores,
            points=scores,
            lives=np.zeros_like(scores, np.int8),
            actions=np.stack([record.actions for record in records]),
            seats=seats,
        )
    return Cell(
        scores=np.stack([record.scores for record in records]).astype(np.int16),
        points=np.stack([record.points for record in records]).astype(np.int16),
        lives=np.stack([record.lives for record in records]).astype(np.int8),
        actions=np.stack([record.actions for record in records]).astype(np.uint8),
        seats=seats,
    )


def cell_games(single: MatrixAgent, others: MatrixAgent, setting: EvalSetting, cell: Cell) -> Games:
    """Games of a cell, S * N in number; the seat of `single` is counted (all in self-play)."""
    rules, seatings = single.policy.rules, len(cell.seats)
    first = cell_key(single, others, setting).policies[0] == single.hash
    # the other case has two players
    seats = np.repeat(cell.seats if first else 1 - cell.seats, setting.games)
    actions = cell.actions.reshape(-1, rules.max_turns).astype(np.int32)
    decks = setting.named_decks(rules)
    if decks is None:
        decks = evaluation_decks(rules, setting.games, setting.seed)
    games = Games(
        rules=rules,
        decks=np.tile(decks, (seatings, 1)),
        actions=actions,
        num_actions=(actions != rules.noop).sum(axis=1, dtype=np.int32),
        scores=cell.scores.reshape(-1).astype(np.int32),
        game_ids=np.arange(len(actions), dtype=np.int32),
        unfinished=np.zeros(len(actions), bool),
        ends=FinalStates(cell.points.reshape(-1).astype(np.int32), cell.lives.reshape(-1)),
    )
    if single.hash == others.hash:
        return games
    return with_counted_seats(games, seats[:, None] == np.arange(rules.num_players))


def _structure(policy: Policy) -> Any:
    """Structure that jit compiles for, equal for policies that differ only in parameters."""
    leaves, structure = jax.tree.flatten(policy)
    return structure, [(np.shape(leaf), jax.dtypes.result_type(leaf)) for leaf in leaves]
