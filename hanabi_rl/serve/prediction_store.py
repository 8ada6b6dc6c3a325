"""What candidates predicted, in the store, and how well: `Predictions`. NumPy alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hanabi_rl.measure.ratio import Ratio, intervals_of
from hanabi_rl.serve.store import Key, Store

if TYPE_CHECKING:
    from hanabi_rl.serve.prediction import HeldOut


@dataclasses.dataclass(frozen=True)
class Guess:
    """One decision of a held-out game: the nats of the move that was made."""

    game: int
    seat: int
    turn: int
    nats: float
    right: bool


class Predictions:
    """The predictions kept in `store`. (key, set of games, game, turn) is a primary key: what was
    said first stands, whichever connection says it."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def said(self, key: Key, digest: str) -> set[tuple[int, int, int]]:
        """The decisions (game, seat, turn) of this set that the key has predicted."""
        with self.store.database.transaction("read") as db:
            found = db.execute(
                "SELECT game, seat, turn FROM predictions WHERE key_id = ? AND digest = ?",
                (key.key_id, digest),
            ).fetchall()
        return {(game, seat, turn) for game, seat, turn in found}

    def say(self, key: Key, digest: str, guesses: Sequence[Guess]) -> None:
        """Writes what was not said before; on the disk when this returns."""
        if not guesses:
            return
        with self.store.database.transaction("durable") as db:
            db.executemany(
                "INSERT INTO predictions (key_id, digest, game, seat, turn, nats, correct) "
                "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                [
                    (key.key_id, digest, g.game, g.seat, g.turn, g.nats, int(g.right))
                    for g in guesses
                ],
            )

    def standings(self, held_out: Mapping[int, HeldOut]) -> list[dict[str, Any]]:
        """A row for each key and set of games that is predicted to its end, best first."""
        rows = [
            self._figures(key, games) | {k: entry[k] for k in ("name", "team", "link")}
            for entry in self.store.entries()
            for key in entry["keys"]
            for games in held_out.values()
            if self._complete(key, games)
        ]
        return sorted(rows, key=lambda row: (row["players"], row["nats_per_timestep"]))

    def _complete(self, key: Key, held_out: HeldOut) -> bool:
        with self.store.database.transaction("read") as db:
            (count,) = db.execute(
                "SELECT COUNT(*) FROM predictions WHERE key_id = ? AND digest = ?",
                (key.key_id, held_out.digest),
            ).fetchone()
        return bool(count == sum(len(held_out.decisions(batch)) for batch in held_out.batches))

    def _figures(self, key: Key, held_out: HeldOut) -> dict[str, Any]:
        """Intervals resample whole games, as those of `hanabi-rl predict` do."""
        number = len(held_out.games)
        nats, right, decisions = np.zeros(number), np.zeros(number), np.zeros(number)
        with self.store.database.transaction("read") as db:
            found = db.execute(
                "SELECT game, SUM(nats), SUM(correct), COUNT(*) FROM predictions "
                "WHERE key_id = ? AND digest = ? GROUP BY game",
                (key.key_id, held_out.digest),
            ).fetchall()
        for game, *sums in found:
            nats[game], right[game], decisions[game] = map(float, sums)
        seats = np.zeros(number)
        for game, _ in (row for batch in held_out.batches for row in batch):
            seats[game] += 1
        timesteps = held_out.games.num_actions * seats
        ratios = (Ratio(nats, timesteps), Ratio(nats, decisions), Ratio(right, decisions))
        figures: dict[str, Any] = {"players": held_out.players, "games": number}
        names = ("nats_per_timestep", "nats", "accuracy")
        for name, interval in zip(names, intervals_of(ratios), strict=True):
            if interval is not None:
                figures |= {name: interval.mean, f"{name}_ci95": interval.bounds}
        return figures
