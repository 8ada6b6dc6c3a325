"""`make_jaxmarl` against jaxmarl's Hanabi: same games, move by move, and under `jax.vmap`."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatch
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hanabi_rl
from hanabi_rl.games.batching import call_batched
from hanabi_rl.games.hanabi.bits import pack_deck
from hanabi_rl.games.hanabi.dynamics import next_cards
from hanabi_rl.games.hanabi.python_game import PythonGame, full_deck
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.single_game import to_python_game

if TYPE_CHECKING:  # jaxmarl takes seconds to import: only where used
    from jaxmarl.environments.multi_agent_env import MultiAgentEnv

    from hanabi_rl.games.hanabi.jaxmarl import GameState, JaxMARLHanabi

SMALL = dict(
    num_colors=2,
    num_ranks=3,
    hand_size=2,
    max_info_tokens=3,
    max_life_tokens=2,
    num_cards_of_rank=[3, 2, 1],
)
"""A game of 12 cards that ends soon and compiles fast."""


@cache
def small() -> JaxMARLHanabi:
    return hanabi_rl.make_jaxmarl(2, **SMALL)


@cache
def small_jaxmarl() -> MultiAgentEnv:
    return jaxmarls_own(2, **SMALL | {"num_cards_of_rank": np.array([3, 2, 1])})


def jaxmarls_own(players: int, **options: Any) -> MultiAgentEnv:
    import jaxmarl

    return jaxmarl.make("hanabi", num_agents=players, **options)


def random_pairs(rules: Rules, num_decks: int, seed: int) -> np.ndarray:
    """Decks of (colour, rank) pairs [num_decks, deck_size, 2]."""
    rng = np.random.default_rng(seed)
    cards = np.stack([rng.permutation(full_deck(rules)) for _ in range(num_decks)])
    return np.stack(divmod(cards, rules.num_ranks), axis=-1)


def choose(
    env: JaxMARLHanabi, key: jax.Array, state: GameState, careful: jax.Array
) -> dict[str, jax.Array]:
    """A random legal action per agent of one game; `careful` players play only playable cards."""
    legal = env.get_avail_actions(state)
    plays = (jnp.arange(env.num_moves) >= env.hand_size) & (
        jnp.arange(env.num_moves) < 2 * env.hand_size
    )
    fits = (state.game.hands & next_cards(env.rules, state.game.fireworks)) != 0
    actions = {}
    for seat, agent in enumerate(env.agents):
        fitting = (
            legal[agent]
            & plays
            & jnp.pad(fits[seat], (env.hand_size, env.num_moves - 2 * env.hand_size))
        )
        wise = jnp.where(fitting.any(), fitting, legal[agent] & ~plays)
        mask = jnp.where(careful & wise.any(), wise, legal[agent])
        key, own_key = jax.random.split(key)
        actions[agent] = jax.random.categorical(own_key, jnp.where(mask, 0.0, -jnp.inf))
    return actions


class Seen(NamedTuple):
    """Outputs of a step that users of either environment see."""

    obs: dict[str, jax.Array]
    legal: dict[str, jax.Array]
    rewards: dict[str, jax.Array]
    dones: dict[str, jax.Array]
    step: jax.Array
    done: jax.Array
    cur_player_idx: jax.Array
    score: jax.Array


def seen(env: Any, state: Any, obs: Any, rewards: Any, dones: Any) -> Seen:
    legal = jax.vmap(env.get_legal_moves)(state)
    return Seen(
        obs, legal, rewards, dones, state.step, state.done, state.cur_player_idx, state.score
    )


def assert_same(ours: Any, theirs: Any) -> None:
    def compare(path: Any, a: jax.Array, b: jax.Array) -> None:
        assert a.dtype == b.dtype and a.shape == b.shape, (jax.tree_util.keystr(path), a, b)
        np.testing.assert_allclose(a, b, atol=1e-6, err_msg=jax.tree_util.keystr(path))

    jax.tree_util.tree_map_with_path(compare, ours, theirs)


@pytest.mark.slow  # games of the core with other numbers of players: test_equals_jaxmarl.py
def test_games_equal_jaxmarl_through_auto_reset() -> None:
    """Three players. Every second game is random, the others careful: they reach the last round and
    high scores."""
    players, games, turns = 3, 16, 200
    ours, theirs = hanabi_rl.make_jaxmarl(players), jaxmarls_own(players)
    careful = jnp.arange(games) % 2 == 0

    def turn(states: tuple[Any, Any], key: jax.Array) -> tuple[tuple[Any, Any], tuple[Seen, Seen]]:
        act_key, step_key = jax.random.split(key)
        actions = jax.vmap(lambda k, s, c: choose(ours, k, s, c))(
            jax.random.split(act_key, games), states[0], careful
        )
        keys = jax.random.split(step_key, games)
        out = []
        for env, state in zip((ours, theirs), states, strict=True):
            obs, state, rewards, dones, infos = jax.vmap(env.step)(keys, state, actions)
            assert infos == {}
            out.append((state, seen(env, state, obs, rewards, dones)))
        return (out[0][0], out[1][0]), (out[0][1], out[1][1])

    @jax.jit
    def play(decks: jax.Array, key: jax.Array) -> Any:
        first = [jax.vmap(env.reset_from_deck_of_pairs)(decks) for env in (ours, theirs)]
        states = (first[0][1], first[1][1])
        return (first[0][0], first[1][0]), jax.lax.scan(turn, states, jax.random.split(key, turns))[
            1
        ]

    first_obs, (a, b) = play(random_pairs(ours.rules, games, seed=0), jax.random.key(players))
    assert_same(*first_obs)
    assert_same(a, b)
    dones = np.asarray(a.dones["__all__"])
    assert dones[:, 1::2].sum() >= games  # the random half: at least two games per environment
    assert dones[:, ::2].sum() >= games // 2
    assert a.score.max() >= 15 and a.rewards["__all__"].min() < 0


@pytest.mark.parametrize("make_key", [jax.random.PRNGKey, jax.random.key], ids=["raw", "typed"])
def test_key_deals_as_in_jaxmarl(make_key: Callable[[int], jax.Array]) -> None:
    from jaxmarl.environments.multi_agent_env import State as JaxMARLState

    key = make_key(3)
    obs, state = small().reset(key)
    assert_same(obs, small_jaxmarl().reset(key)[0])
    assert isinstance(state, JaxMARLState) and not state.done and state.step == 0


def play_small(
    env: JaxMARLHanabi, shape: tuple[int, ...], turns: int = 12
) -> tuple[GameState, Any, jax.Array]:
    """Mid-game states, legal actions and keys of many small games."""
    games = int(np.prod(shape))
    state = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), games))[1]

    def turn(state: GameState, key: jax.Array) -> tuple[GameState, None]:
        keys = jax.random.split(key, games)
        actions = jax.vmap(lambda k, s: choose(env, k, s, jnp.bool_(True)))(keys, state)
        return jax.vmap(env.step)(keys, state, actions)[1], None

    state, _ = jax.lax.scan(turn, state, jax.random.split(jax.random.key(1), turns))
    keys = jax.random.split(jax.random.key(2), games)
    actions = jax.vmap(lambda k, s: choose(env, k, s, jnp.bool_(False)))(keys, state)
    return jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), (state, actions, keys))


@pytest.fixture(scope="module")
def midgame() -> tuple[GameState, Any, jax.Array]:
    state, actions, keys = jax.jit(lambda: play_small(small(), (24,)))()
    return *jax.device_get((state, actions)), keys  # indexing NumPy arrays compiles no program


def test_vmap_equals_single_games(midgame: tuple[GameState, Any, jax.Array]) -> None:
    state, actions, keys = midgame
    together = jax.device_get(jax.vmap(small().step)(keys, state, actions))
    dones = np.asarray(together[3]["__all__"])
    assert dones.any() and not dones.all()
    for game in [*np.flatnonzero(dones)[:4], *np.flatnonzero(~dones)[:4]]:
        key, one_state, one_actions = jax.tree.map(
            lambda leaf, game=game: leaf[game], (keys, state, actions)
        )
        alone = small().step(key, one_state, one_actions)
        jax.tree.map(
            np.testing.assert_array_equal,
            alone,
            jax.tree.map(lambda leaf, game=game: leaf[game], together),
        )


def test_nested_vmap_equals_vmap(midgame: tuple[GameState, Any, jax.Array]) -> None:
    state, actions, keys = midgame

    def fold(leaf: jax.Array) -> jax.Array:
        return leaf.reshape(4, 6, *leaf.shape[1:])

    flat = jax.device_get(jax.vmap(small().step)(keys, state, actions))
    nested = jax.vmap(jax.vmap(small().step))(*jax.tree.map(fold, (keys, state, actions)))
    jax.tree.map(np.testing.assert_array_equal, nested, jax.tree.map(fold, flat))


def test_any_vmap_gives_one_batch() -> None:
    """The function depends on its whole batch, so it distinguishes a batch of six from two of
    three."""

    def folded(batches: list[Any]) -> Any:
        def above_mean(keys: jax.Array, numbers: dict[str, jax.Array]) -> jax.Array:
            batches.append(keys.shape)
            return numbers["a"] - numbers["a"].mean() + jax.vmap(jax.random.uniform)(keys)[:, None]

        return jax.vmap(lambda key, a: call_batched(above_mean, key, {"a": a}), in_axes=(None, 0))

    # a new function per call: jax 0.11 does not trace a function again for a known batch
    eager: list[Any] = []
    jitted: list[Any] = []
    key, numbers = jax.random.key(0), jnp.arange(12.0).reshape(2, 3, 2)
    outer = jax.vmap(folded(jitted), in_axes=(None, 1), out_axes=1)
    expected = numbers - numbers.mean() + jax.random.uniform(key)
    np.testing.assert_allclose(
        jax.vmap(folded(eager), in_axes=(None, 0))(key, numbers), expected, rtol=1e-5
    )
    np.testing.assert_allclose(jax.jit(outer)(key, numbers), expected, rtol=1e-5)
    assert eager[-1] == jitted[-1] == (6,)


@pytest.mark.parametrize("ended", [0, 1, 32, 33, 80])
def test_deals_one_deck_per_ended_game(ended: int) -> None:
    """Also more than are shuffled at a time. A game's deck is what `reset` deals from half of its
    key."""
    from hanabi_rl.games.hanabi.jaxmarl import _deck_from, _next_decks

    rules, games = small().rules, 80
    keys = jax.random.split(jax.random.key(0), games)
    needed = np.random.default_rng(ended).permutation(games) < ended
    old = jnp.full((games, 2), 7, jnp.uint32)
    decks = jax.jit(_next_decks, static_argnums=0)(rules, keys, needed, old)
    fresh = pack_deck(jax.vmap(lambda key: _deck_from(rules, jax.random.split(key)[1]))(keys))
    np.testing.assert_array_equal(decks, np.where(needed[:, None], fresh, old))


def test_step_env_keeps_final_state(midgame: Any) -> None:
    state, actions, keys = midgame
    final_obs, final, rewards, dones, _ = jax.vmap(small().step_env)(keys, state, actions)
    np.testing.assert_array_equal(final.done, dones["__all__"])
    np.testing.assert_array_equal(final.terminal, dones["agent_1"])
    np.testing.assert_array_equal(final.step, state.step + 1)
    assert_same(jax.vmap(small().get_obs)(final), final_obs)

    # another game's state as the next one
    other = jax.tree.map(lambda leaf: np.roll(leaf, 1, axis=0), state)
    obs, after, step_rewards, step_dones, _ = jax.vmap(small().step)(keys, state, actions, other)
    assert_same((step_rewards, step_dones), (rewards, dones))
    done = np.asarray(dones["__all__"])
    assert done.any() and not done.all()
    np.testing.assert_array_equal(after.step, np.where(done, other.step, state.step + 1))
    np.testing.assert_array_equal(
        after.game.deck, np.where(done[:, None], other.game.deck, state.game.deck)
    )
    assert_same(jax.vmap(small().get_obs)(after), obs)


def test_step_is_traced_once() -> None:
    traces = []

    @jax.jit
    def step(key: jax.Array, state: GameState, actions: dict[str, jax.Array]) -> Any:
        traces.append(1)
        return small().step(key, state, actions)

    state, chosen = small().reset(jax.random.key(0))[1], jax.jit(partial(choose, small()))
    for turn in range(4):
        actions = chosen(jax.random.key(turn), state, np.bool_(True))
        state = step(jax.random.key(turn), state, actions)[1]
    assert len(traces) == 1 and state.step.dtype == jnp.int32


def test_policy_gradients_bypass_environment() -> None:
    """The loss of a rollout is differentiable; the environment adds nothing to its gradient."""
    state = jax.vmap(small().reset)(jax.random.split(jax.random.key(0), 3))[1]

    def loss(scale: jax.Array) -> jax.Array:
        def turn(state: GameState, key: jax.Array) -> tuple[GameState, jax.Array]:
            noise = jax.random.uniform(key, (3, small().num_moves))
            legal = jax.vmap(small().get_legal_moves)(state)
            logits = {agent: scale * noise + (legal[agent] - 1) * 1e9 for agent in small().agents}
            actions = {agent: jnp.argmax(logits[agent], axis=-1) for agent in small().agents}
            obs, state, rewards, _, _ = jax.vmap(small().step)(
                jax.random.split(key, 3), state, actions
            )
            return state, scale + sum(o.sum() for o in obs.values()) + rewards["__all__"].sum()

        return jax.lax.scan(turn, state, jax.random.split(jax.random.key(1), 5))[1].sum()

    assert jax.jit(jax.grad(loss))(1.0) == 5


@pytest.fixture(scope="module")
def first() -> GameState:
    """A small game on the sorted deck: Alice holds R1 R1, Bob R1 R2."""
    return small().reset_from_deck_of_pairs(sorted_pairs())[1]


def sorted_pairs() -> np.ndarray:
    return np.stack(divmod(np.array(full_deck(small().rules)), 3), axis=-1)


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (
            1,
            "agent_0, turn 0: illegal move 1 (Alice discards slot 2 (R1)): a discard while all 3 "
            "information tokens",
        ),
        (
            5,
            "agent_0, turn 0: illegal move 5 (Alice hints Bob yellow): a hint that touches no card",
        ),
        (9, "agent_0, turn 0: illegal move 9 (Alice passes): a no-op on the player's own turn"),
        (
            10,
            "agent_0, turn 0: illegal move 10 (Alice makes an unknown move): expected an action "
            "in 0..9, got 10",
        ),
    ],
)
def test_illegal_action_error_explains_reason(first: GameState, action: int, words: str) -> None:
    for step in (small().step, small().step_env):
        with pytest.raises(ValueError, match=re.escape(words)):
            step(jax.random.key(0), first, {"agent_0": action, "agent_1": 9})


def test_unchecked_illegal_action_costs_life(first: GameState) -> None:
    actions = {"agent_0": jnp.int32(0), "agent_1": jnp.int32(9)}
    inside_jit = jax.jit(small().step_env)(jax.random.key(0), first, actions)
    unchecked = hanabi_rl.make_jaxmarl(2, validate=False, **SMALL).step_env(
        jax.random.key(0), first, actions
    )
    for after in (inside_jit[1], unchecked[1]):
        assert after.game.life_tokens == 1 and after.game.player == 1 and after.step == 1


def test_only_current_players_action_counts(first: GameState) -> None:
    state = small().step(jax.random.key(0), first, {"agent_0": 2, "agent_1": 9})[
        1
    ]  # Alice plays R1
    assert state.score == 1 and list(state.cur_player_idx) == [0, 1]
    # Bob plays R2
    out = small().step(jax.random.key(0), state, {"agent_0": 999, "agent_1": np.int64(3)})
    assert out[1].score == 2 and out[2] == {"agent_0": 1, "agent_1": 1, "__all__": 1}
    assert set(out[0]) == set(small().agents)
    with pytest.raises(
        ValueError, match=r"expected an action for each of .* got none for \['agent_1'\]"
    ):
        small().step(jax.random.key(0), state, {"agent_0": 9})


def test_to_python_game_gives_same_reasons() -> None:
    """For all actions, the reason from one state equals that of a `PythonGame` that played the
    game."""
    env = hanabi_rl.make_jaxmarl(2, validate=False, **SMALL)
    pairs = random_pairs(env.rules, 6, seed=5)
    for deck in pairs:
        state = env.reset_from_deck_of_pairs(deck)[1]
        played = PythonGame(env.rules, deck[:, 0] * env.num_ranks + deck[:, 1])
        rng = np.random.default_rng(int(deck.sum()))
        while True:
            reasons = [played.illegal_reason(action) for action in range(env.num_moves)]
            table = to_python_game(env.rules, jax.tree.map(np.asarray, state.game))
            assert [table.illegal_reason(action) for action in range(env.num_moves)] == reasons
            assert [table.describe(a) for a in range(env.num_moves)] == [
                played.describe(a) for a in range(env.num_moves)
            ]
            if played.over:
                break
            action = rng.choice([action for action, reason in enumerate(reasons) if reason is None])
            played.apply(action)
            state = env.step_env(jax.random.key(0), state, dict.fromkeys(env.agents, action))[1]


def test_invalid_decks_are_rejected(first: GameState) -> None:
    env, pairs = small(), sorted_pairs()
    one_hot = np.eye(6)[pairs[:, 0] * 3 + pairs[:, 1]].reshape(12, 2, 3)
    jax.tree.map(np.testing.assert_array_equal, env.reset_from_deck(one_hot)[1], first)
    with pytest.raises(ValueError, match=r"the deck must have shape \[12, 2\], got \[11, 2\]"):
        env.reset_from_deck_of_pairs(pairs[1:])
    with pytest.raises(
        ValueError, match=r"the deck is not the 12-card set: expected 3 of card id 0, got 4"
    ):
        env.reset_from_deck_of_pairs(np.concatenate([pairs[:-1], pairs[:1]]))


@pytest.mark.slow  # compiles both
def test_jaxmarl_wrappers_give_same_numbers() -> None:
    """`LogWrapper` and `CTRolloutManager` around both environments, in step."""
    from jaxmarl.wrappers.baselines import CTRolloutManager, LogWrapper

    turns, games = 30, 5
    managers = [
        CTRolloutManager(LogWrapper(env), batch_size=games) for env in (small(), small_jaxmarl())
    ]

    def turn(carry: Any, key: jax.Array) -> Any:
        valid = managers[0].get_valid_actions(carry[0].env_state)
        actions = {
            agent: jnp.argmax(valid[agent] * jax.random.uniform(key, valid[agent].shape), -1)
            for agent in valid
        }
        out = [m.batch_step(key, state, actions) for m, state in zip(managers, carry, strict=True)]
        for manager, (_, state, _, _, _) in zip(managers, out, strict=True):
            assert set(manager.get_valid_actions(state.env_state)) == set(small().agents)
        return tuple(o[1] for o in out), tuple((o[0], o[2], o[3], o[4]) for o in out)

    @jax.jit
    def play(key: jax.Array) -> Any:
        states = tuple(manager.batch_reset(key)[1] for manager in managers)
        return jax.lax.scan(turn, states, jax.random.split(key, turns))[1]

    ours, theirs = play(jax.random.key(0))
    assert_same(ours, theirs)
    assert ours[3]["returned_episode"].any() and ours[3]["returned_episode_lengths"].max() > 2


@pytest.mark.parametrize("players", [2, 3, 4, 5])
def test_agent_names_and_spaces(players: int) -> None:
    from jaxmarl.environments.multi_agent_env import MultiAgentEnv

    ours, theirs = hanabi_rl.make_jaxmarl(players), jaxmarls_own(players)
    assert isinstance(ours, MultiAgentEnv)
    for name in (
        "name",
        "agents",
        "num_agents",
        "num_moves",
        "num_actions",
        "obs_size",
        "hand_size",
        "deck_size",
    ):
        assert getattr(ours, name) == getattr(theirs, name), name
    np.testing.assert_array_equal(ours.num_cards_of_rank, theirs.num_cards_of_rank)
    for agent in ours.agents:
        assert (
            ours.action_space(agent).n
            == ours.action_spaces[agent].n
            == theirs.action_space(agent).n
        )
        assert (
            ours.observation_space(agent).shape
            == ours.observation_spaces[agent].shape
            == theirs.obs_size
        )


def test_docstring_lists_omitted_members(capsys: pytest.CaptureFixture[str]) -> None:
    """The docstring names, by name or pattern, all missing members of the environment and state."""
    ours, theirs = small(), small_jaxmarl()
    states = [env.reset(jax.random.key(0))[1] for env in (ours, theirs)]
    named = re.findall(r"`([a-z_0-9*]+)`", hanabi_rl.make_jaxmarl.__doc__ or "")

    def missing(one: Any, other: Any) -> set[str]:
        return {name for name in {*dir(other)} - {*dir(one)} if not name.startswith("_")}

    left_out = missing(ours, theirs) | missing(*states)
    assert [name for name in left_out if not any(map(partial(fnmatch, name), named))] == []
    assert {"get_obs_str", "play_action_range", "bombed"} <= left_out
    assert left_out.isdisjoint({"action_encoding", "terminal", "render"})
    assert not ours.terminal(states[0])
    ours.render(states[0])
    assert "Alice" in capsys.readouterr().out


@pytest.mark.parametrize(("players", "colors"), [(2, 5), (4, 6), (5, 4)])
def test_actions_have_jaxmarl_names(players: int, colors: int) -> None:
    ours = hanabi_rl.make_jaxmarl(players, num_colors=colors)
    theirs = jaxmarls_own(players, num_colors=colors)
    assert ours.action_encoding == theirs.action_encoding  # type: ignore[attr-defined]


def test_unsupported_options_are_rejected() -> None:
    assert hanabi_rl.make_jaxmarl(2, shuffle_player_order=False).num_moves == 21
    with pytest.raises(ValueError, match="shuffle_player_order=True is not supported"):
        hanabi_rl.make_jaxmarl(2, shuffle_player_order=True)
    with pytest.raises(ValueError, match=r"expected options among num_colors, .*, got num_suits"):
        hanabi_rl.make_jaxmarl(2, num_suits=5)
    with pytest.raises(ValueError, match="num_players must be 2 to 5, got 6"):
        hanabi_rl.make_jaxmarl(6)
