"""Hanabi as a jaxmarl 0.2 environment, for code written for ``jaxmarl.make("hanabi", ...)``.

jaxmarl's interface is one game with `jax.vmap` around it; our rules take batches.
`batching.call_batched` joins them: however deeply a call is vmapped, the rules run once, on one
batch of all games.

Importing this module imports jaxmarl, which takes seconds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from hanabi_rl.games.batching import call_batched, select_games
from hanabi_rl.games.hanabi import dynamics as core
from hanabi_rl.games.hanabi.actions import decode_action
from hanabi_rl.games.hanabi.bits import pack_deck
from hanabi_rl.games.hanabi.observation import observe
from hanabi_rl.games.hanabi.python_game import COLORS, PythonGame
from hanabi_rl.games.hanabi.render import render_state
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.single_game import to_python_game
from hanabi_rl.games.jaxmarl import quiet_import
from hanabi_rl.storage.jax_settings import with_fixed_settings

with quiet_import():
    from jaxmarl.environments.hanabi.hanabi_game import DEFAULT_COLOR_MAP
    from jaxmarl.environments.multi_agent_env import MultiAgentEnv
    from jaxmarl.environments.multi_agent_env import State as JaxMARLState
    from jaxmarl.environments.spaces import Box, Discrete

ByAgent = dict[str, jax.Array]
Transition = tuple[ByAgent, "GameState", ByAgent, ByAgent, dict[str, Any]]


@struct.dataclass
class GameState(JaxMARLState):
    """One game: jaxmarl's ``done`` bool[] and ``step`` int32[] (moves made), and our compact
    state."""

    game: core.State
    """The game; leaves without the axis of games."""

    @property
    def cur_player_idx(self) -> jax.Array:
        """float32[..., P]: current player, one-hot."""
        return jax.nn.one_hot(self.game.player, self.game.hands.shape[-2], dtype=jnp.float32)

    @property
    def score(self) -> jax.Array:
        """int32[...]: cards on the fireworks, 0 after the last life is lost."""
        points = jax.lax.population_count(self.game.fireworks).astype(jnp.int32)
        return jnp.where(self.game.life_tokens > 0, points, 0)

    @property
    def terminal(self) -> jax.Array:
        """bool[...]: the game is over."""
        return self.done


def make_jaxmarl(num_agents: int = 2, *, validate: bool = True, **kwargs: Any) -> JaxMARLHanabi:
    """Drop-in for ``jaxmarl.make("hanabi", num_agents=..., ...)`` on legal play.

    Action ids, observations, rewards, dones, spaces and the deck for a key are equal. Differences:

    - An illegal action or a step from a finished game, inside `jax.jit` and `jax.vmap`, does what
      `dynamics.step` does.
    - The state has jaxmarl's fields `done`, `step`, `terminal`, `score` and `cur_player_idx`. It
      lacks `deck`, `seat_order`, `discard_pile`, `fireworks`, `player_hands`, `info_tokens`,
      `life_tokens`, `card_knowledge`, `colors_revealed`, `ranks_revealed`, `num_cards_dealt`,
      `num_cards_discarded`, `remaining_deck_size`, `last_round_count`, `out_of_lives` and `bombed`:
      `GameState.game` holds the game as bits.
    - `render` prints the position in our format.
    - The environment lacks `get_obs_str`, `render_obs`, `card_to_string`, `action_set`,
      `agent_range`, `*_action_range`, `*_n_feats`, `color_map`, `shuffle_player_order`, and the
      functions that jaxmarl's `reset` and `step` call (`reset_game*`, `step_game`, `get_*_feats*`,
      `get_first_state`, `get_full_deck`).

    Args:
        num_agents: 2 to 5.
        validate: raise ValueError for an illegal action if the arrays are concrete (outside `jit`
            and `vmap`).
        **kwargs: `num_colors, num_ranks, hand_size, max_info_tokens, max_life_tokens,
            num_cards_of_rank`.

    Raises:
        ValueError: numbers that `Rules` rejects (six colours with hands of five), or an unsupported
            option of jaxmarl's (`shuffle_player_order=True`, `color_map`, `agents`,
            `action_spaces`, `observation_spaces`, `num_moves`).
    """
    if kwargs.pop("shuffle_player_order", False):
        raise ValueError("shuffle_player_order=True is not supported: agent_0 always moves first")
    options = (
        "num_colors",
        "num_ranks",
        "hand_size",
        "max_info_tokens",
        "max_life_tokens",
        "num_cards_of_rank",
    )
    unknown = sorted(set(kwargs) - set(options))
    if unknown:
        raise ValueError(
            f"make_jaxmarl expected options among {', '.join(options)}, got {', '.join(unknown)}"
        )
    return JaxMARLHanabi(Rules(num_players=num_agents, **kwargs), validate=validate)


class JaxMARLHanabi(MultiAgentEnv):
    """Hanabi with jaxmarl's interface: one game per call, dicts keyed by agent. Use `make_jaxmarl`.

    Keys may be raw (``uint32[2]``) or typed. The methods are plain functions around jitted ones, so
    that they can check concrete actions; therefore, and because of our state, their types differ
    from the base class.
    """

    def __init__(self, rules: Rules, *, validate: bool = True) -> None:
        super().__init__(rules.num_players)
        self.rules = rules
        self.validate = validate
        self.num_colors, self.num_ranks, self.hand_size = (
            rules.num_colors,
            rules.num_ranks,
            rules.hand_size,
        )
        self.max_info_tokens, self.max_life_tokens = rules.max_info_tokens, rules.max_life_tokens
        self.num_cards_of_rank = np.array(rules.num_cards_of_rank)
        self.deck_size = rules.deck_size
        self.num_moves = rules.num_actions
        self.obs_size = rules.obs_size
        self.action_spaces = {agent: Discrete(rules.num_actions) for agent in self.agents}
        # a plain number, as in jaxmarl's Hanabi: its baselines rely on it
        shape: Any = rules.obs_size
        self.observation_spaces = {agent: Box(low=0, high=1, shape=shape) for agent in self.agents}

    @property
    def name(self) -> str:
        """Name by which jaxmarl's wrappers recognise the game."""
        return "Hanabi"

    @cached_property
    def action_encoding(self) -> dict[int, str]:
        """jaxmarl's name of each action id: `D0`, `P4`, `HR to P1 relative`, `H5 to P1 relative`,
        `N`."""
        names, jaxmarls = {}, len(DEFAULT_COLOR_MAP)
        colors = DEFAULT_COLOR_MAP if self.num_colors <= jaxmarls else COLORS
        for action in range(self.num_moves):
            move = decode_action(self.rules, action)
            hint = colors[move.value] if move.kind == "color" else move.value + 1
            names[action] = {
                "discard": f"D{move.slot}",
                "play": f"P{move.slot}",
                "noop": "N",
            }.get(move.kind, f"H{hint} to P{move.offset} relative")
        return names

    def terminal(self, state: GameState) -> jax.Array:
        """bool[...]: the game is over."""
        return state.done

    def render(self, state: GameState) -> None:
        """Print the position of one game, as `render.render_state` formats it."""
        print(render_state(self.rules, jax.tree.map(lambda leaf: leaf[None], state.game)))

    @property
    def num_actions(self) -> int:
        """Number of actions, the no-op included."""
        return self.num_moves

    @with_fixed_settings
    def reset(self, key: jax.Array) -> tuple[ByAgent, GameState]:  # type: ignore[override]
        """Deal the game that jaxmarl deals from the same key: observations float32[O] by agent, and
        the state."""
        state, obs = _reset(self.rules, key)
        return self._by_agent(obs), state

    @with_fixed_settings
    def reset_from_deck_of_pairs(self, deck: jax.Array) -> tuple[ByAgent, GameState]:
        """Start a game from (colour, rank) pairs ``[deck_size, 2]``, top card first.

        Raises:
            ValueError: another shape, or (outside a trace, with `validate`) the wrong cards.
        """
        deck = jnp.asarray(deck)
        self._check_shape(deck, (self.deck_size, 2))
        return self._start(deck[:, 0] * self.num_ranks + deck[:, 1])

    @with_fixed_settings
    def reset_from_deck(self, deck: jax.Array) -> tuple[ByAgent, GameState]:
        """`reset_from_deck_of_pairs` for one-hot cards ``[deck_size, num_colors, num_ranks]``."""
        deck = jnp.asarray(deck)
        self._check_shape(deck, (self.deck_size, self.num_colors, self.num_ranks))
        return self._start(jnp.argmax(deck.reshape(self.deck_size, -1), axis=-1))

    @with_fixed_settings
    def step(  # type: ignore[override]
        self,
        key: jax.Array,
        state: GameState,
        actions: Mapping[str, jax.Array],
        reset_state: GameState | None = None,
    ) -> Transition:
        """One move; if it ends the game, state and observations are those of the next game.

        Args:
            key: key from which the next game is dealt.
            state: the game.
            actions: an action for every agent; only the current player's counts.
            reset_state: the next game, instead of one dealt from `key`.

        Returns:
            (observations, state, rewards, dones, infos): dicts over agents, rewards and dones with
            "__all__" too; infos is empty.

        Raises:
            ValueError: an agent without an action, or (outside a trace, with `validate`) an illegal
                action.
        """
        joint = self._checked(state, actions)
        return self._transition(*_step_and_reset(self.rules, key, state, joint, reset_state))

    @with_fixed_settings
    def step_env(  # type: ignore[override]
        self, key: jax.Array, state: GameState, actions: Mapping[str, jax.Array]
    ) -> Transition:
        """`step` without the next game: if the move ends the game, state and observations are the
        final ones."""
        del key
        return self._transition(*_step(self.rules, state, self._checked(state, actions)))

    @with_fixed_settings
    def get_obs(self, state: GameState, old_state: Any = None, action: Any = None) -> ByAgent:  # type: ignore[override]
        """Each agent's observation float32[O].

        `old_state` and `action` exist for jaxmarl and are not read: our state stores its last move.
        """
        del old_state, action
        return self._by_agent(_observe(self.rules, state))

    @with_fixed_settings
    def get_legal_moves(self, state: GameState) -> ByAgent:
        """Each agent's legal actions as float32[A] of zeros and ones; an idle agent has only the
        no-op."""
        return self._by_agent(_legal(self.rules, state).astype(jnp.float32))

    @with_fixed_settings
    def get_avail_actions(self, state: GameState) -> ByAgent:  # type: ignore[override]
        """`get_legal_moves` as bool[A]."""
        return self._by_agent(_legal(self.rules, state))

    def _by_agent(self, values: jax.Array) -> ByAgent:
        return {agent: values[seat] for seat, agent in enumerate(self.agents)}

    def _start(self, deck: jax.Array) -> tuple[ByAgent, GameState]:
        if self.validate and _is_concrete(deck):
            PythonGame(self.rules, np.asarray(deck))
        state, obs = _reset_from_cards(self.rules, deck)
        return self._by_agent(obs), state

    def _transition(
        self, state: GameState, obs: jax.Array, reward: jax.Array, done: jax.Array
    ) -> Transition:
        names = [*self.agents, "__all__"]
        return (
            self._by_agent(obs),
            state,
            dict.fromkeys(names, reward),
            dict.fromkeys(names, done),
            {},
        )

    def _check_shape(self, deck: jax.Array, shape: tuple[int, ...]) -> None:
        if deck.shape != shape:
            raise ValueError(f"the deck must have shape {list(shape)}, got {list(deck.shape)}")

    def _checked(self, state: GameState, actions: Mapping[str, jax.Array]) -> jax.Array:
        """Actions of all agents, int32[P]."""
        missing = [agent for agent in self.agents if agent not in actions]
        if missing:
            raise ValueError(
                f"expected an action for each of {self.agents}, got none for {missing}"
            )
        joint = jnp.stack([jnp.asarray(actions[agent], jnp.int32) for agent in self.agents])
        if self.validate and _is_concrete((state, joint)):
            table = to_python_game(self.rules, state.game)
            action = int(joint[table.player])
            reason = table.illegal_reason(action)
            if reason is not None:
                who = f"{self.agents[table.player]}, turn {table.turn}"
                raise ValueError(
                    f"{who}: illegal move {action} ({table.describe(action)}): {reason}"
                )
        return joint


# One game in, one game out. Rules are static, so environments of one game share compiled functions.


@partial(jax.jit, static_argnums=0)
def _reset(rules: Rules, key: jax.Array) -> tuple[GameState, jax.Array]:
    return call_batched(lambda keys: _observed(rules, _new_games(rules, keys)), key)


@partial(jax.jit, static_argnums=0)
def _reset_from_cards(rules: Rules, deck: jax.Array) -> tuple[GameState, jax.Array]:
    return call_batched(lambda decks: _observed(rules, core.deal(rules, decks)), deck)


@partial(jax.jit, static_argnums=0)
def _step_and_reset(
    rules: Rules, key: jax.Array, state: GameState, joint: jax.Array, reset_state: GameState | None
) -> tuple[GameState, jax.Array, jax.Array, jax.Array]:
    def advance(
        keys: jax.Array, state: GameState, joint: jax.Array, reset_state: GameState | None
    ) -> tuple[GameState, jax.Array, jax.Array, jax.Array]:
        game, reward, done = core.step(rules, state.game, _movers_action(rules, state.game, joint))
        if reset_state is None:
            decks = _next_decks(rules, keys, done, game.deck)
            reset_state = _as_state(rules, core.deal_packed(rules, decks))
        after = select_games(done, reset_state, _as_state(rules, game))
        after = dataclasses.replace(after, game=after.game.materialized())
        return after, observe(rules, after.game), reward, done

    return call_batched(advance, key, state, joint, reset_state)


@partial(jax.jit, static_argnums=0)
def _step(
    rules: Rules, state: GameState, joint: jax.Array
) -> tuple[GameState, jax.Array, jax.Array, jax.Array]:
    def advance(
        state: GameState, joint: jax.Array
    ) -> tuple[GameState, jax.Array, jax.Array, jax.Array]:
        game, reward, done = core.step(rules, state.game, _movers_action(rules, state.game, joint))
        return *_observed(rules, game), reward, done

    return call_batched(advance, state, joint)


@partial(jax.jit, static_argnums=0)
def _observe(rules: Rules, state: GameState) -> jax.Array:
    return call_batched(lambda game: observe(rules, game), state.game)


@partial(jax.jit, static_argnums=0)
def _legal(rules: Rules, state: GameState) -> jax.Array:
    return call_batched(lambda game: core.legal_actions(rules, game), state.game)


# Batches of N games from here on.


def _as_state(rules: Rules, game: core.State) -> GameState:
    return GameState(done=core.finished(rules, game), step=game.turn.astype(jnp.int32), game=game)


def _observed(rules: Rules, game: core.State) -> tuple[GameState, jax.Array]:
    game = game.materialized()
    return _as_state(rules, game), observe(rules, game)


def _movers_action(rules: Rules, game: core.State, joint: jax.Array) -> jax.Array:
    """Select the current players' actions int32[N] from all seats' int32[N, P]."""
    return sum(
        (jnp.where(game.player == seat, joint[:, seat], 0) for seat in range(rules.num_players)),
        jnp.int32(0),
    )


def _new_games(rules: Rules, keys: jax.Array) -> core.State:
    return core.deal(rules, jax.vmap(partial(_deck_from, rules))(keys))


def _deck_from(rules: Rules, key: jax.Array) -> jax.Array:
    """Deck of card ids [deck_size] that jaxmarl's `reset` deals from a key."""
    copies = [rank for rank, count in enumerate(rules.num_cards_of_rank) for _ in range(count)]
    cards = [color * rules.num_ranks + rank for rank in copies for color in range(rules.num_colors)]
    _, deck_key = jax.random.split(key)
    return jax.random.permutation(deck_key, jnp.array(cards))


def _next_decks(rules: Rules, keys: jax.Array, needed: jax.Array, decks: jax.Array) -> jax.Array:
    """Packed decks uint32[N, W]: what jaxmarl's `step` deals next from its key where `needed`
    bool[N], otherwise `decks`.

    Few games end in a step, and shuffling for all would cost more than the step: shuffle in chunks
    of about as many games as usually end, as often as needed.
    """
    games = needed.shape[0]
    chunk = min(games, max(32, games // 16))

    def shuffled(key: jax.Array) -> jax.Array:
        _, reset_key = jax.random.split(key)
        return _deck_from(rules, reset_key)

    def deal_chunk(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        waiting, decks = carry
        # the fill value `games` is out of range: its writes are dropped
        (chosen,) = jnp.nonzero(waiting, size=chunk, fill_value=games)
        fresh = pack_deck(jax.vmap(shuffled)(keys[jnp.minimum(chosen, games - 1)]))
        return waiting.at[chosen].set(False, mode="drop"), decks.at[chosen].set(fresh, mode="drop")

    return jax.lax.while_loop(lambda carry: jnp.any(carry[0]), deal_chunk, (needed, decks))[1]


def _is_concrete(tree: Any) -> bool:
    return not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(tree))
