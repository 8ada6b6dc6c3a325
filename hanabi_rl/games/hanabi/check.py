"""`check_hanabi_env`: conformance tests for environments with `HanabiEnv`'s interface.

They play legal moves and check every state in plain NumPy: cards are conserved, tokens stay in
range, knowledge is true, rewards are the points gained, legal masks follow from the cards, no seat
sees its own hand, colours are interchangeable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.games.hanabi.actions import action_slices
from hanabi_rl.games.hanabi.bits import bit, count, pack_deck, unpack_deck
from hanabi_rl.games.hanabi.dynamics import State, next_cards
from hanabi_rl.games.hanabi.observation import observation_slices
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.symmetry import (
    permute_legal,
    permute_obs,
    permute_state,
    random_color_permutations,
)
from hanabi_rl.storage.jax_settings import with_fixed_settings

if TYPE_CHECKING:
    from hanabi_rl.games.hanabi.hanabi import EnvState, TimeStep


class Environment(Protocol):
    """Interface required by `check_hanabi_env`; `HanabiEnv` documents each name."""

    rules: Rules

    def reset(self, key: jax.Array, num_envs: int) -> EnvState:
        """Start environments."""

    def step(self, env_state: EnvState, action: jax.Array) -> tuple[EnvState, TimeStep]:
        """Play one move in each, with auto-reset."""

    def observe(self, env_state: EnvState) -> jax.Array:
        """float32[N, P, O]"""

    def legal_actions(self, env_state: EnvState) -> jax.Array:
        """bool[N, P, A]"""


Array = Any
"""NumPy array in checks, JAX array in computations."""


class _Game(NamedTuple):
    """``N`` games: the parts of `State` by name, and the deck as card ids uint8[N, deck_size]."""

    deck: Array
    deck_left: Array
    hands: Array
    knowledge: Array
    hints: Array
    fireworks: Array
    discards: Array
    info_tokens: Array
    life_tokens: Array
    player: Array
    turn: Array
    last_round: Array


class _Seen(NamedTuple):
    """One moment of ``N`` environments."""

    game: _Game
    obs: Array  # float32[N, P, O]
    legal: Array  # bool[N, P, A]
    seat: Array  # int32[N]: owner of a card swapped for one of the deck that fits its hints
    swapped: Array  # bool[N]: True if there was such a card
    swapped_obs: Array  # float32[N, P, O]: observations after the swap
    renamed_obs: Array  # float32[N, P, O]: observations of the game with permuted colours
    expected_obs: Array  # float32[N, P, O]: permuted observations of the game; must be equal
    renamed_legal: Array  # bool[N, P, A]: the same for legal moves
    expected_legal: Array  # bool[N, P, A]


@with_fixed_settings(prng=True)
def check_hanabi_env(env: Environment, num_envs: int = 64, steps: int = 120, seed: int = 0) -> None:
    """Play `steps` moves in `num_envs` environments and check every state, observation, legal mask
    and reward.

    Moves are random and legal; every other environment avoids plays that cost a life, so that games
    also end with the deck. Compiles once; the defaults take some seconds.

    Raises:
        AssertionError: the fault, with step, environment, expected and actual value.
    """
    rules = env.rules
    look, move = jax.jit(_looker(env)), jax.jit(_mover(env))
    reset_key, *keys = jax.random.split(jax.random.key(seed), steps + 2)
    env_state = jax.jit(lambda key: env.reset(key, num_envs))(reset_key)
    before: _Seen = jax.tree.map(np.asarray, look(env_state, keys[0]))
    _check_moment(rules, 0, before)
    _check_fresh(rules, 0, before.game, np.ones(num_envs, bool))
    for step, key in enumerate(keys[1:], start=1):
        env_state, timestep = move(env_state, key)
        after, timestep = jax.tree.map(np.asarray, (look(env_state, key), timestep))
        _check_moment(rules, step, after)
        _check_move(rules, step, before.game, after.game, timestep)
        before = after


def swap_hidden_card(
    rules: Rules, state: State, seat: jax.Array, slot: jax.Array, key: jax.Array
) -> tuple[State, jax.Array]:
    """Exchange the card in `slot` int32[N] of `seat` int32[N] for a different, undealt card that
    fits its hints; the owner cannot observe the difference.

    Returns:
        (the games, bool[N] True if there was such a card; other games are unchanged).
    """
    hand, ranks = rules.hand_size, rules.num_ranks
    games = jnp.arange(seat.shape[0])
    deck = unpack_deck(state.deck, rules.deck_size)
    old, known = state.hands[games, seat, slot], state.knowledge[games, seat, slot]
    undealt = jnp.arange(rules.deck_size) >= rules.deck_size - state.deck_left[:, None]
    fits = undealt & ((bit(deck) & known[:, None] & ~old[:, None]) != 0) & (old != 0)[:, None]
    possible = jnp.any(fits, axis=-1)
    place = jnp.argmax(jnp.where(fits, jax.random.uniform(key, fits.shape), -1.0), axis=-1)
    new = deck[games, place].astype(jnp.int32)
    here = possible[:, None] & (jnp.arange(rules.num_players) == seat[:, None])

    def put(word: jax.Array, group: jax.Array, groups: int) -> jax.Array:
        every = bit(slot) * sum(1 << (g * hand) for g in range(groups))
        return jnp.where(here, (word & ~every[:, None]) | bit(group * hand + slot)[:, None], word)

    old_in_deck = deck.at[games, place].set(count(old - 1).astype(deck.dtype))
    exchanged = state.replace(
        colors=put(state.colors, new // ranks, rules.num_colors),
        ranks=put(state.ranks, new % ranks, ranks),
        deck=jnp.where(possible[:, None], pack_deck(old_in_deck), state.deck),
    )
    return exchanged, possible


def _looker(env: Environment) -> Callable[[EnvState, jax.Array], Any]:
    rules = env.rules

    def look(env_state: EnvState, key: jax.Array) -> Any:
        seat_key, slot_key, card_key, color_key = jax.random.split(key, 4)
        game = env_state.game
        games = game.player.shape[0]
        seat = jax.random.randint(seat_key, (games,), 0, rules.num_players)
        slot = jax.random.randint(slot_key, (games,), 0, rules.hand_size)
        other, swapped = swap_hidden_card(rules, game, seat, slot, card_key)
        perm = random_color_permutations(color_key, games, rules.num_colors)
        renamed = permute_state(rules, game, perm)
        # one batch: a third of the compile time
        variants = [env_state.replace(game=variant) for variant in (game, other, renamed)]
        together = jax.tree.map(lambda *parts: jnp.concatenate(parts), *variants)
        obs, swapped_obs, renamed_obs = jnp.split(env.observe(together), 3)
        legal, _, renamed_legal = jnp.split(env.legal_actions(together), 3)
        deck = unpack_deck(game.deck, rules.deck_size)
        return _Seen(
            game=_Game(deck, *[getattr(game, field) for field in _Game._fields[1:]]),
            obs=obs,
            legal=legal,
            seat=seat,
            swapped=swapped,
            swapped_obs=swapped_obs,
            renamed_obs=renamed_obs,
            expected_obs=permute_obs(rules, obs, perm[:, None]),
            renamed_legal=renamed_legal,
            expected_legal=permute_legal(rules, legal, perm[:, None]),
        )

    return look


def _mover(env: Environment) -> Callable[[EnvState, jax.Array], tuple[EnvState, TimeStep]]:
    rules, plays = env.rules, action_slices(env.rules)["play"]

    def move(env_state: EnvState, key: jax.Array) -> tuple[EnvState, TimeStep]:
        game = env_state.game
        games = jnp.arange(game.player.shape[0])
        legal = env.legal_actions(env_state)[games, game.player]
        loses = (game.hands[games, game.player] & next_cards(rules, game.fireworks)[:, None]) == 0
        careful = legal.at[:, plays].set(legal[:, plays] & ~loses)
        use = (games % 2 == 1) & jnp.any(careful, axis=-1)
        moves = jnp.where(use[:, None], careful, legal)
        return env.step(
            env_state,
            jax.random.categorical(key, jnp.where(moves, 0.0, -jnp.inf)).astype(jnp.int32),
        )

    return move


def _expect(what: str, step: int, got: Any, expected: Any, where: Array | bool = True) -> None:
    got, expected = np.broadcast_arrays(got, expected)
    where = np.broadcast_to(
        np.reshape(where, np.shape(where) + (1,) * (got.ndim - np.ndim(where))), got.shape
    )
    wrong = np.argwhere((got != expected) & where)
    if wrong.size:
        place = tuple(wrong[0])
        inside = f" at {[int(i) for i in place[1:]]}" if len(place) > 1 else ""
        raise AssertionError(
            f"{what}: step {step}, environment {place[0]}{inside}: expected {expected[place]}, "
            f"got {got[place]}"
        )


def _check_moment(rules: Rules, step: int, seen: _Seen) -> None:
    game = seen.game
    _expect(
        "copies of each card",
        step,
        _count_cards(rules, game),
        np.array(rules.num_copies),
    )
    _expect("information tokens in range", step, game.info_tokens <= rules.max_info_tokens, True)
    lives = (game.life_tokens >= 1) & (game.life_tokens <= rules.max_life_tokens)
    _expect("lives in range", step, lives, True)
    _expect("turns below max_turns", step, game.turn < rules.max_turns, True)
    _expect("a card outside what its hints allow", step, game.hands & ~game.knowledge, 0)
    _expect("legal moves", step, seen.legal, _expected_legal(rules, game))

    hands = _bits(game.hands, rules.num_cards)
    others = [
        np.roll(hands, -seat, axis=1)[:, 1:].reshape(len(hands), -1)
        for seat in range(rules.num_players)
    ]
    _expect(
        "the other players' cards in the observation",
        step,
        seen.obs[..., observation_slices(rules)["hands"]],
        np.stack(others, 1),
    )
    owner = np.arange(rules.num_players) == seen.seat[:, None]
    changed = (seen.obs != seen.swapped_obs).any(axis=-1)
    _expect("observers of an exchanged hidden card", step, changed, ~owner & seen.swapped[:, None])
    _expect("observation of renamed colours", step, seen.renamed_obs, seen.expected_obs)
    _expect("legal moves of renamed colours", step, seen.renamed_legal, seen.expected_legal)


def _check_move(rules: Rules, step: int, before: _Game, after: _Game, timestep: Any) -> None:
    gained = timestep.points - np.bitwise_count(before.fireworks)
    bombed = timestep.done & (timestep.score == 0)
    _expect("score", step, timestep.score, np.where(bombed, 0, timestep.points))
    _expect("points gained by one move", step, (gained >= 0) & (gained <= 1), True)
    _expect(
        "reward",
        step,
        timestep.reward,
        np.where(bombed, -timestep.points, gained).astype(np.float32),
    )
    _expect("turn", step, after.turn, before.turn + 1, ~timestep.done)
    _expect("player", step, after.player, (before.player + 1) % rules.num_players, ~timestep.done)
    _expect("points", step, np.bitwise_count(after.fireworks), timestep.points, ~timestep.done)
    _expect("unfinished game", step, np.bitwise_count(after.fireworks) < rules.max_score, True)
    _check_fresh(rules, step, after, timestep.done)


def _check_fresh(rules: Rules, step: int, game: _Game, where: Array) -> None:
    for field in ("turn", "player", "fireworks", "discards", "hints", "last_round"):
        _expect(f"{field} of a new game", step, getattr(game, field), 0, where)
    _expect(
        "information tokens of a new game", step, game.info_tokens, rules.max_info_tokens, where
    )
    _expect("lives of a new game", step, game.life_tokens, rules.max_life_tokens, where)


def _bits(words: Array, width: int) -> Array:
    return (words[..., None] >> np.arange(width, dtype=words.dtype)) & 1


def _count_cards(rules: Rules, game: _Game) -> Array:
    """Copies of each card in the deck, hands, fireworks and discards, int[N, K]."""
    undealt = np.arange(rules.deck_size) >= rules.deck_size - game.deck_left[:, None]
    in_deck = ((game.deck[..., None] == np.arange(rules.num_cards)) & undealt[..., None]).sum(
        axis=1
    )
    on_table = np.concatenate(
        [game.hands.reshape(len(game.deck), -1), game.fireworks[:, None], game.discards], axis=1
    )
    return in_deck + _bits(on_table, rules.num_cards).sum(axis=1, dtype=int)


def _expected_legal(rules: Rules, game: _Game) -> Array:
    """Legal moves bool[N, P, A], derived from the cards."""
    games = len(game.player)
    legal = np.zeros((games, rules.num_players, rules.num_actions), bool)
    legal[:, :, rules.noop] = True
    for n in range(games):
        # [P, H, K], the current player's first
        hands = np.roll(_bits(game.hands[n], rules.num_cards), -int(game.player[n]), axis=0)
        holds = hands[0].any(axis=-1)
        by_color = (
            hands[1:].reshape(-1, rules.hand_size, rules.num_colors, rules.num_ranks).any(axis=1)
        )
        hints = np.concatenate([by_color.any(axis=2).ravel(), by_color.any(axis=1).ravel()])
        may_discard, may_hint = game.info_tokens[n] < rules.max_info_tokens, game.info_tokens[n] > 0
        legal[n, game.player[n]] = np.concatenate(
            [holds & may_discard, holds, hints & may_hint, [False]]
        )
    return legal
