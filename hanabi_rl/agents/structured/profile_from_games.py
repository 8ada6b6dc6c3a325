"""Profiles of players in recorded games and in earlier games of the same players."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.structured import profile
from hanabi_rl.agents.structured.card_counts import count_cards
from hanabi_rl.agents.structured.profile import init_profile
from hanabi_rl.data.games import Games
from hanabi_rl.games.hanabi.replay import replay
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import from_state
from hanabi_rl.games.hanabi.state import State

GAMES_AT_ONCE = 64


def player_counts(games: Games) -> np.ndarray:
    """Counts of `PlayerProfile` for the player at each seat in each game, float32[N, P, K]. The
    last move of a game is omitted, as no player observes its result."""
    parts, length = [], int(games.num_actions.max())
    for start in range(0, len(games), GAMES_AT_ONCE):
        # the last group is padded, so that all have one shape
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
        after = profile.update_profile(rules, known, seat_obs, count_cards(rules, seat_obs))
        return after.rotated(1), after.counts

    counts = jax.lax.scan(turn, init_profile(rules, (len(decks),)), states)[1]
    last = counts[moves - 1, jnp.arange(len(decks))]  # in the frame of the last move's player
    seats = (jnp.arange(rules.num_players) - (moves - 1)[:, None]) % rules.num_players
    return jnp.take_along_axis(last, seats[..., None], axis=1)


def counts_before(games: Games, series: int) -> np.ndarray:
    """Counts at the start of each game from earlier games with the same seating, float32[N, P, K].

    Every `series` games with the same players, in file order, start again from 0. Without player
    ids in the file, all counts are 0.
    """
    counts = player_counts(games)
    before = np.zeros_like(counts)
    if games.players is None:
        return before
    totals: dict[tuple[int, ...], tuple[int, np.ndarray]] = {}
    for game, players in enumerate(games.players.tolist()):
        # canonical rotation: players may sit at other seats in the next game
        turned = [tuple(players[k:] + players[:k]) for k in range(len(players))]
        first = turned.index(min(turned))
        num_games, known = totals.get(turned[first], (0, np.zeros_like(counts[game])))
        if num_games % series == 0:
            known = np.zeros_like(known)
        before[game] = np.roll(known, first, axis=0)
        totals[turned[first]] = num_games + 1, known + np.roll(counts[game], -first, axis=0)
    return before
