"""The profile of players that recorded games show: what each did in a game, and in the games with
the same players before it."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.structured import profile
from hanabi_rl.agents.structured.card_counts import count_cards
from hanabi_rl.agents.structured.profile import init_profile
from hanabi_rl.agents.structured.seat_observation import from_state
from hanabi_rl.data.games import Games
from hanabi_rl.games.hanabi.replay import replay
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.state import State

GAMES_AT_ONCE = 64


def player_counts(games: Games) -> np.ndarray:
    """What a `PlayerProfile` counts of the player at each seat in each game, float32[N, P, K]. A
    game's last move is left out: whoever plays does not get to see it either."""
    parts, length = [], int(games.num_actions.max())
    for start in range(0, len(games), GAMES_AT_ONCE):
        # the last group is filled up, all of one shape
        index = np.minimum(np.arange(start, start + GAMES_AT_ONCE), len(games) - 1)
        actions = games.actions[index, :length]
        parts.append(_count(games.rules, games.decks[index], actions, games.num_actions[index]))
    return np.concatenate([np.asarray(part) for part in parts])[: len(games)]


@partial(jax.jit, static_argnums=0)
def _count(rules: Rules, decks: jax.Array, actions: jax.Array, moves: jax.Array) -> jax.Array:
    """decks [n, D], actions [n, T] and their number [n] -> float32 [n, P, K]."""
    states = replay(rules, decks, actions).state

    def turn(known: profile.PlayerProfile, state: State) -> tuple[profile.PlayerProfile, jax.Array]:
        seat_obs = from_state(rules, state)
        after = profile.remember(rules, known, seat_obs, count_cards(rules, seat_obs))
        return after.rotated(1), after.counts

    counts = jax.lax.scan(turn, init_profile(rules, (len(decks),)), states)[1]
    last = counts[moves - 1, jnp.arange(len(decks))]  # as the mover of the last move sees it
    seats = (jnp.arange(rules.num_players) - (moves - 1)[:, None]) % rules.num_players
    return jnp.take_along_axis(last, seats[..., None], axis=1)


def counts_before(games: Games, series: int) -> np.ndarray:
    """What was counted, when each game began, of the player at each seat in the games before with
    the same players around the table, float32[N, P, K].

    Of every `series` such games in the order of the file the first is one of strangers. Where the
    games do not say who sat where, every game is.
    """
    counts = player_counts(games)
    before = np.zeros_like(counts)
    if games.players is None:
        return before
    tables: dict[tuple[int, ...], tuple[int, np.ndarray]] = {}
    for game, players in enumerate(games.players.tolist()):
        # whoever comes first in the order of the table: seats move around it from game to game
        turned = [tuple(players[k:] + players[:k]) for k in range(len(players))]
        first = turned.index(min(turned))
        met, known = tables.get(turned[first], (0, np.zeros_like(counts[game])))
        if met % series == 0:
            known = np.zeros_like(known)
        before[game] = np.roll(known, first, axis=0)
        tables[turned[first]] = met + 1, known + np.roll(counts[game], -first, axis=0)
    return before
