"""Proxies of a store's games and their lineups: `fix_proxies`.

`keys create` sets the number of games, `serve` the proxies; lineups are assigned once both are
known. Proxies are compared by identity, since a name may later mean another agent. All games for
one number of players use the same proxies permanently, so leaderboard rows are comparable.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hanabi_rl.people.serve.database import Session
from hanabi_rl.people.serve.schedule import deal_lineups
from hanabi_rl.play.lineups import Lineup
from hanabi_rl.storage.renamed_fields import current_name

NO_LINEUP = "[]"
"""Lineup of a game without known proxies."""


class Proxy(NamedTuple):
    """Agent that plays with candidates."""

    name: str
    identity: str


def with_identities(
    names: Mapping[int, Sequence[str]], identities: Mapping[int, Mapping[str, str]]
) -> dict[int, list[Proxy]]:
    """Return the proxies `names` by players, with identities from `InferenceProcess.load`. Raises
    ValueError for an agent that is named twice."""
    found = {}
    for players, of_size in names.items():
        found[players] = [Proxy(name, identities[players][name]) for name in of_size]
        for a, b in itertools.combinations(found[players], 2):
            if a.identity == b.identity:
                raise ValueError(f"--proxies-{players}p: {a.name} and {b.name} are the same agent")
    return found


Proxies = Mapping[int, tuple[Proxy, ...]]
"""players -> proxies, in the order of lineup numbers."""


def stored_proxies(db: Session) -> dict[int, tuple[Proxy, ...]]:
    """Proxies of this store, by players; only those that a server has named."""
    rows = db.execute(
        "SELECT num_players, name, identity FROM proxies ORDER BY num_players, place"
    ).fetchall()
    return {
        players: tuple(Proxy(current_name(name), identity) for _, name, identity in of_size)
        for players, of_size in itertools.groupby(map(tuple, rows), key=lambda row: int(row[0]))
    }


def fix_proxies(
    db: Session, secret: bytes, named: Mapping[int, Sequence[Proxy]], now: float
) -> dict[int, tuple[Proxy, ...]]:
    """Make `named` the proxies of this store and assign lineups to games that have not started.

    Returns the proxies in the store's order.

    Raises:
        ValueError: games were started with other proxies; a key has games without proxies, or too
            few games for every lineup.
    """
    stored, fixed = stored_proxies(db), {}
    for players, proxies in named.items():
        fixed[players] = _in_stored_order(stored.get(players, ()), proxies)
        if fixed[players]:
            continue
        _check_not_started(db, players, proxies, stored.get(players, ()))
        fixed[players] = tuple(proxies)
        _write(db, players, proxies)
    if named:
        _check_sizes(db, named, now)
        for players in set(stored) - set(named):
            if not _any_started(db, players):
                _write(db, players, ())
    for players, proxies in fixed.items():
        for key_id, hint in _keys_without_lineups(db, players, now):
            try:
                assign_lineups(db, secret, key_id, players, len(proxies))
            except ValueError as error:
                raise ValueError(
                    f"--proxies-{players}p: key {hint}... has too few games for {len(proxies)} "
                    f"proxies: {error} {_revoke_hint(hint)}"
                ) from error
    return fixed


def assign_lineups(db: Session, secret: bytes, key_id: int, players: int, num_proxies: int) -> None:
    """Assign lineups to a key's games. Raises ValueError for fewer games than lineups."""
    games = _count(db, "key_id = ? AND num_players = ?", (key_id, players))
    order = deal_lineups(secret, key_id, players, num_proxies, games)
    db.executemany(
        "UPDATE games SET line_up = ? WHERE key_id = ? AND num_players = ? AND position = ?",
        [(json.dumps(seats), key_id, players, position) for position, seats in enumerate(order)],
    )


def _in_stored_order(stored: Sequence[Proxy], named: Sequence[Proxy]) -> tuple[Proxy, ...]:
    """Return the named proxies in stored order; () if they are not the same set."""
    by_identity = {proxy.identity: proxy for proxy in named}
    if set(by_identity) != {proxy.identity for proxy in stored}:
        return ()
    return tuple(by_identity[proxy.identity] for proxy in stored)


def _check_not_started(
    db: Session, players: int, named: Sequence[Proxy], stored: Sequence[Proxy]
) -> None:
    """Raise ValueError if games were started with other proxies; if none was started, clear the
    lineups. A store of an older version has only their number, in its lineups."""
    if _any_started(db, players):
        if stored:
            raise ValueError(
                f"--proxies-{players}p: this store's games were started with {_names(stored)}, got "
                f"{_names(named)}{_by_identity(stored, named)}; use those, or another --state"
            )
        number = _num_proxies_in_lineups(db, players)
        if number not in (0, len(named)):
            raise ValueError(
                f"--proxies-{players}p: this store's games were started with {number} proxies, got "
                f"{len(named)}"
            )
    else:
        db.execute("UPDATE games SET line_up = ? WHERE num_players = ?", (NO_LINEUP, players))


def _by_identity(stored: Sequence[Proxy], named: Sequence[Proxy]) -> str:
    """Describe proxies with a known name but another identity."""
    identities = {proxy.name: proxy.identity for proxy in stored}
    changed = [p.name for p in named if identities.get(p.name, p.identity) != p.identity]
    return f" ({', '.join(changed)}: changed since then)" if changed else ""


def _check_sizes(db: Session, named: Mapping[int, Sequence[Proxy]], now: float) -> None:
    """Raise ValueError if a valid key has games for players without proxies."""
    found = db.execute(
        "SELECT hint, num_players, COUNT(*) FROM games JOIN keys ON keys.id = key_id "
        "WHERE status != 'done' AND revoked_at IS NULL AND expires_at > ? "
        "GROUP BY keys.id, hint, num_players ORDER BY keys.id, num_players",
        (now,),
    ).fetchall()
    for hint, players, games in found:
        if players not in named:
            raise ValueError(
                f"--proxies-{players}p: expected a proxy for the {games:,} games of key "
                f"{hint}..., got none {_revoke_hint(hint)}"
            )


def _write(db: Session, players: int, proxies: Sequence[Proxy]) -> None:
    db.execute("DELETE FROM proxies WHERE num_players = ?", (players,))
    db.executemany(
        "INSERT INTO proxies (num_players, place, name, identity) VALUES (?, ?, ?, ?)",
        [(players, place, *proxy) for place, proxy in enumerate(proxies)],
    )


def _keys_without_lineups(db: Session, players: int, now: float) -> list[tuple[int, str]]:
    """Valid keys with games that have no lineup."""
    found = db.execute(
        "SELECT DISTINCT keys.id, hint FROM games JOIN keys ON keys.id = key_id WHERE line_up = ? "
        "AND num_players = ? AND revoked_at IS NULL AND expires_at > ? ORDER BY keys.id",
        (NO_LINEUP, players, now),
    ).fetchall()
    return [(key_id, hint) for key_id, hint in found]


def _any_started(db: Session, players: int) -> bool:
    return _count(db, "num_players = ? AND status != 'todo'", (players,)) > 0


def _num_proxies_in_lineups(db: Session, players: int) -> int:
    found = db.execute("SELECT DISTINCT line_up FROM games WHERE num_players = ?", (players,))
    lineups: list[Lineup] = [json.loads(text) for (text,) in found.fetchall()]
    return 1 + max((proxy for lineup in lineups for proxy in lineup), default=-1)


def _count(db: Session, which: str, values: Sequence[int]) -> int:
    (found,) = db.execute(f"SELECT COUNT(*) FROM games WHERE {which}", values).fetchone()
    return int(found)


def _revoke_hint(hint: str) -> str:
    return f"(to drop the key: `hanabi-rl keys revoke {hint}`)"


def _names(proxies: Sequence[Proxy]) -> str:
    return ", ".join(proxy.name for proxy in proxies)
