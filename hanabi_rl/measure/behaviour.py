"""How players play: the behaviour metrics of Canaan et al. that AH2AC2 reports in its Table 10.

*Information per play*: for each card played, the share of {its colour, its rank} that its holder
    knew, averaged.
*Communicativeness*: the share of a player's turns on which it gives a hint, of those on which it
    could.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.env.game import Rules
from hanabi_rl.env.replay import replay
from hanabi_rl.env.rules import State
from hanabi_rl.measure.chunks import in_chunks, join_chunks
from hanabi_rl.measure.intervals import Interval, bootstrap_ratio
from hanabi_rl.papers.ah2ac2 import BEHAVIOUR

if TYPE_CHECKING:
    from hanabi_rl.data.games import Games

_CHUNK = 1024  # games read at once


class Behaviour(NamedTuple):
    """Sums over the counted seats' turns in each of N games, so that intervals can resample whole
    games.

    hinted, deduced: float64[N], information over the cards played, 0, 0.5 or 1 a card: what hints
        named, and what hints
    left as the only possibility, those that did not touch the card included. plays, hints, turns,
    token_turns: int64[N] cards played, hints given, turns, and turns with an information token to
    spend.
    """

    hinted: np.ndarray
    deduced: np.ndarray
    plays: np.ndarray
    hints: np.ndarray
    turns: np.ndarray
    token_turns: np.ndarray

    def information_per_play(self) -> Interval | None:
        """By the hints that named a card's colour or rank; None where no card was played."""
        return _ratio(self.hinted, self.plays)

    def deduced_information_per_play(self) -> Interval | None:
        """The same, counting also what hints about other cards left as the only colour or rank
        possible."""
        return _ratio(self.deduced, self.plays)

    def communicativeness(self) -> Interval | None:
        """Hints given per turn on which there was an information token."""
        return _ratio(self.hints, self.token_turns)

    def hint_share(self) -> Interval | None:
        """Hints given per turn."""
        return _ratio(self.hints, self.turns)


def _ratio(numerators: np.ndarray, denominators: np.ndarray) -> Interval | None:
    return bootstrap_ratio(numerators, denominators) if denominators.sum() > 0 else None


def behaviour_of_games(games: Games, chunk_size: int = _CHUNK) -> Behaviour:
    """The behaviour in recorded games; only that of the `human_seats` where the games name them."""
    return behaviour(games.rules, games.decks, games.actions, games.human_seats, chunk_size)


def behaviour(
    rules: Rules,
    decks: np.ndarray,
    actions: np.ndarray,
    seats: np.ndarray | None = None,
    chunk_size: int = _CHUNK,
) -> Behaviour:
    """The behaviour in N games: decks [N, D] card ids, actions [N, T] of the mover, no-op after the
    end; of the seats in `seats` bool[N, P], or of all."""
    num_games, num_turns = actions.shape
    chunks = in_chunks(chunk_size, decks, actions)
    hinted, deduced, tokens = join_chunks(
        [_read_chunk(rules, *chunk) for chunk in chunks], num_games
    )
    counted = actions != rules.noop
    if seats is not None:
        counted &= seats[:, np.arange(num_turns) % rules.num_players]
    plays = counted & (actions >= rules.hand_size) & (actions < 2 * rules.hand_size)
    hints = counted & (actions >= 2 * rules.hand_size)
    return Behaviour(
        hinted=np.where(plays, hinted, 0).sum(axis=1, dtype=np.float64),
        deduced=np.where(plays, deduced, 0).sum(axis=1, dtype=np.float64),
        plays=plays.sum(axis=1),
        hints=hints.sum(axis=1),
        turns=counted.sum(axis=1),
        token_turns=(counted & (tokens > 0)).sum(axis=1),
    )


@functools.partial(jax.jit, static_argnums=0)
def _read_chunk(rules: Rules, decks: jax.Array, actions: jax.Array) -> tuple[jax.Array, ...]:
    """For each turn of n games: what is known of the card that its action would play, by what hints
    named and by what they left possible, float32[n, T] each; and the information tokens int32[n,
    T]."""
    states = replay(rules, decks, actions).state  # [T, n, ...]
    slot = jnp.clip(actions.T - rules.hand_size, 0, rules.hand_size - 1).astype(jnp.uint32)

    def read(state: State, slot: jax.Array) -> tuple[jax.Array, ...]:
        named: list[jax.Array] = []
        left: list[jax.Array] = []
        for words, groups in (
            (state.maybe_colors, rules.num_colors),
            (state.maybe_ranks, rules.num_ranks),
        ):
            mover = jnp.take_along_axis(words, state.player[:, None], axis=1)[:, 0]
            bits = [(mover >> (group * rules.hand_size + slot)) & 1 for group in range(groups + 1)]
            named.append(jnp.where(bits[groups] != 0, 0.5, 0.0))
            left.append(jnp.where(sum(bits[:groups]) == 1, 0.5, 0.0))
        return named[0] + named[1], left[0] + left[1], state.info_tokens

    return tuple(field.T for field in jax.vmap(read)(states, slot))


def behaviour_figures(found: Behaviour) -> dict[str, Any]:
    """JSON-ready figures; a mean and its interval are None where there was nothing to average."""
    figures: dict[str, Any] = {
        "games": len(found.turns),
        "turns": int(found.turns.sum()),
        "token_turns": int(found.token_turns.sum()),
        "plays": int(found.plays.sum()),
        "hints": int(found.hints.sum()),
    }
    for name in (
        "information_per_play",
        "deduced_information_per_play",
        "communicativeness",
        "hint_share",
    ):
        interval: Interval | None = getattr(found, name)()
        figures[name] = None if interval is None else interval.mean
        figures[f"{name}_ci95"] = None if interval is None else interval.bounds
    return figures


def behaviour_table(figures: dict[str, Any], players: int) -> str:
    """`behaviour_figures` as text, beside the paper's figures for as many players where it has
    them."""
    labels = {
        "information_per_play": "information per play, by what hints named",
        "deduced_information_per_play": "  and by what hints left as the only one",
        "communicativeness": "communicativeness: hints per turn with a token",
        "hint_share": "  hints per turn of any kind",
    }
    published = BEHAVIOUR.get(players, {})
    lines = [
        f"{'':<47} {'mean':>6} {'95% interval':<16}" + "".join(f" {who:>11}" for who in published)
    ]
    for name, label in labels.items():
        paper = "".join(
            f" {getattr(row, name):11.2f}" for row in published.values() if name in row._fields
        )
        mean, bounds = figures[name], figures[f"{name}_ci95"]
        ours = (
            f"{'none':>6} {'':<16}"
            if mean is None
            else f"{mean:6.3f} {f'[{bounds[0]:.3f}, {bounds[1]:.3f}]':<16}"
        )
        lines.append(f"{label:<47} {ours}{paper}".rstrip())
    lines.append(
        f"{figures['games']:,} games: {figures['plays']:,} cards played, {figures['hints']:,} "
        "hints on "
        f"{figures['token_turns']:,} turns with a token and {figures['turns']:,} in all. "
        "Intervals are 95%, over games."
    )
    if published:
        lines.append(
            "On the right AH2AC2's Table 10, on all of its games; its exact definitions are not "
            "public."
        )
    return "\n".join(lines)
