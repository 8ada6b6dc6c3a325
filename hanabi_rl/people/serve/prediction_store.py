"""Predictions of candidates in the store and their scores: `Predictions`. NumPy only."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hanabi_rl.evaluation.measure.ratio import Ratio, intervals_of
from hanabi_rl.people.serve.grants import Key
from hanabi_rl.people.serve.standings import as_csv
from hanabi_rl.people.serve.store import Store

if TYPE_CHECKING:
    from hanabi_rl.people.serve.held_out import HeldOutGames

FIGURES = ("nats_per_timestep", "nats", "accuracy")
_ENDS = ("low", "high")
COLUMNS = (
    *("players", "name", "team", "games", "decisions"),
    *(f"{name}{end}" for name in FIGURES for end in ("", *(f"_{end}" for end in _ENDS))),
)


@dataclasses.dataclass(frozen=True)
class Guess:
    """Score of one decision of a held-out game."""

    game: int
    seat: int
    turn: int
    cross_entropy: float
    correct: bool


class Predictions:
    """Predictions in `store`. (key, set of games, game, turn) is a primary key, so the first
    prediction is final."""

    def __init__(self, store: Store) -> None:
        self.store = store
        # of complete predictions, which are final
        self._cache: dict[tuple[int, str], dict[str, Any]] = {}

    def recorded(self, key: Key, digest: str) -> set[tuple[int, int, int]]:
        """Decisions (game, seat, turn) of this set that the key has predicted."""
        with self.store.database.transaction("read") as db:
            found = db.execute(
                "SELECT game, seat, turn FROM predictions WHERE key_id = ? AND digest = ?",
                (key.key_id, digest),
            ).fetchall()
        return {(game, seat, turn) for game, seat, turn in found}

    def record(self, key: Key, digest: str, guesses: Sequence[Guess]) -> None:
        """Save predictions that are not yet recorded; on disk when this returns."""
        if not guesses:
            return
        with self.store.database.transaction("durable") as db:
            db.executemany(
                "INSERT INTO predictions (key_id, digest, game, seat, turn, nats, correct) "
                "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                [
                    (key.key_id, digest, g.game, g.seat, g.turn, g.cross_entropy, int(g.correct))
                    for g in guesses
                ],
            )

    def count(self, key: Key, digest: str | None = None) -> int:
        """Number of decisions that the key has predicted, in one set or in total."""
        with self.store.database.transaction("read") as db:
            (found,) = db.execute(
                "SELECT COUNT(*) FROM predictions WHERE key_id = ?"
                + ("" if digest is None else " AND digest = ?"),
                (key.key_id,) if digest is None else (key.key_id, digest),
            ).fetchone()
        return int(found)

    def standings(self, held_out: Mapping[int, HeldOutGames]) -> list[dict[str, Any]]:
        """One row per key and completely predicted set of games, best first."""
        rows = []
        for entry in self.store.entries():
            about = {name: entry[name] for name in ("name", "team", "link")}
            for key in entry["keys"]:
                for games in held_out.values():
                    figures = self._complete_figures(key, games)
                    if figures is not None:
                        rows.append(figures | about)
        return sorted(rows, key=lambda row: (row["players"], row["nats_per_timestep"]))

    def _complete_figures(self, key: Key, held_out: HeldOutGames) -> dict[str, Any] | None:
        """Scores of a key that has predicted every decision; None before."""
        which = key.key_id, held_out.digest
        if which not in self._cache:
            if self.count(key, held_out.digest) < held_out.total:
                return None
            self._cache[which] = self._figures(key, held_out)
        return self._cache[which]

    def _figures(self, key: Key, held_out: HeldOutGames) -> dict[str, Any]:
        """Scores with intervals that resample whole games, as in `hanabi-rl predict`."""
        number = len(held_out.games)
        cross_entropy, correct, decisions = np.zeros(number), np.zeros(number), np.zeros(number)
        with self.store.database.transaction("read") as db:
            found = db.execute(
                "SELECT game, SUM(nats), SUM(correct), COUNT(*) FROM predictions "
                "WHERE key_id = ? AND digest = ? GROUP BY game",
                (key.key_id, held_out.digest),
            ).fetchall()
        for game, *sums in found:
            cross_entropy[game], correct[game], decisions[game] = map(float, sums)
        timesteps = held_out.games.num_actions * held_out.seats.sum(axis=1)
        accuracy = Ratio(correct, decisions, is_proportion=True)
        ratios = (Ratio(cross_entropy, timesteps), Ratio(cross_entropy, decisions), accuracy)
        figures: dict[str, Any] = {
            "players": held_out.players,
            "games": number,
            "decisions": held_out.total,
        }
        for name, interval in zip(FIGURES, intervals_of(ratios), strict=True):
            assert interval is not None, "there are decisions"
            figures |= {name: interval.mean, f"{name}_ci95": interval.bounds}
        return figures


def predictions_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Return `Predictions.standings` as CSV."""

    def with_bounds(row: dict[str, Any]) -> dict[str, Any]:
        ends = {name: row[f"{name}_ci95"] for name in FIGURES}
        return row | {f"{n}_{end}": ends[n][i] for n in ends for i, end in enumerate(_ENDS)}

    return as_csv([with_bounds(row) for row in rows], COLUMNS)
