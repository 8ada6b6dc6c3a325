"""Structured features and network: state and observation agree, independence of hidden cards,
colours."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import (
    finished,
    init_params,
    legal_for_mover,
    observe,
    observe_seat,
    permute_legal,
    permute_state,
    random_color_permutations,
)
from support.structured import (
    BATCH,
    SMALL,
    first_state,
    look_at_observation,
    look_at_state,
    play_random_games,
    random_move,
)

from hanabi_rl.agents.bots import hint_inference
from hanabi_rl.agents.bots.hints import score_hints
from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.policy_folder import save_policy
from hanabi_rl.agents.structured import convention_features, features, hint_memory
from hanabi_rl.agents.structured.card_counts import count_cards
from hanabi_rl.agents.structured.hint_memory import FEATURE_SETS, Memory, init_memory, next_seat
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import from_state
from hanabi_rl.games.hanabi.state import State
from hanabi_rl.nn.structured_network import FeatureSet, StructuredActor, StructuredConfig
from hanabi_rl.storage.tensors import read_metadata

GAMES = [SMALL, *(pytest.param(Rules(p), marks=pytest.mark.slow) for p in (2, 3, 5))]


def assert_same(one: Any, other: Any, atol: float = 0.0) -> None:
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), atol=atol)


@pytest.mark.parametrize("rules", GAMES, ids=str)
def test_state_and_observation_features_agree(rules: Rules) -> None:
    states, memory = play_random_games(rules, "hint-history", first_state(rules), jax.random.key(1))
    obs = observe_seat(rules, states, states.player)
    by_state = look_at_state(rules, "hint-history", memory, states)
    assert_same(by_state, look_at_observation(rules, "hint-history", memory, obs), atol=1e-6)
    assert all(np.isfinite(np.asarray(x)).all() for x in by_state[1])
    assert np.abs(np.asarray(by_state[1].own)).max() <= 1.0


@pytest.mark.parametrize(
    "feature_set",
    ["facts", *(pytest.param(x, marks=pytest.mark.slow) for x in FEATURE_SETS[1:])],
)
def test_all_seats_keep_the_same_memory(feature_set: FeatureSet) -> None:
    rules = SMALL
    state, passed_on = first_state(rules), init_memory(rules, feature_set, (BATCH,))
    seats = [init_memory(rules, feature_set, (BATCH,)) for _ in range(rules.num_players)]
    key = jax.random.key(0)
    for turn in range(9):
        after, view = look_at_state(rules, feature_set, passed_on, state)
        obs, goes_on = np.asarray(observe(rules, state)), ~np.asarray(finished(rules, state))
        for seat in range(rules.num_players):
            seats[seat], seen = look_at_observation(rules, feature_set, seats[seat], obs[:, seat])
            if seat == turn % rules.num_players:
                pair = ((after, view), (seats[seat], seen))
                memory = jax.tree.map(lambda x, goes_on=goes_on: np.asarray(x)[goes_on], pair)
                assert_same(*memory, atol=1e-6)
        passed_on = next_seat(after)
        state = random_move(rules, state, jax.random.fold_in(key, turn))


@pytest.mark.parametrize(
    "feature_set",
    ["facts", *(pytest.param(x, marks=pytest.mark.slow) for x in FEATURE_SETS[1:])],
)
def test_structured_logits_are_color_equivariant(feature_set: FeatureSet) -> None:
    rules = SMALL
    actor, params = network(rules, feature_set)
    states, memory = play_random_games(rules, feature_set, first_state(rules), jax.random.key(2))
    perm = random_color_permutations(jax.random.key(3), len(states.last), rules.num_colors)
    renamed = permute_state(rules, states, perm)
    logits = act(rules, feature_set, actor, params, memory, states)
    permuted = act(rules, feature_set, actor, params, rename(rules, memory, perm), renamed)
    expected = permute_legal(rules, logits, perm)
    np.testing.assert_allclose(permuted, expected, atol=1e-5)


def rename(rules: Rules, memory: Memory, perm: jax.Array) -> Memory:
    """Permute the colours of the memory's card sets, card by card in NumPy."""
    words, perms = np.asarray(memory.cards), np.asarray(perm)
    renamed = words.copy()
    sets = [w for w in range(words.shape[-1]) if w not in (0, 3, 6, 9, 10)]
    for w in sets:
        renamed[..., w] = 0
        for card in range(rules.num_cards):
            color, rank = divmod(card, rules.num_ranks)
            new = (perms[:, color] * rules.num_ranks + rank)[:, None, None]
            renamed[..., w] |= ((words[..., w] >> card) & 1) << new.astype(np.uint32)
    return Memory(jnp.asarray(renamed))


def network(rules: Rules, feature_set: FeatureSet) -> tuple[StructuredActor, Any]:
    actor = StructuredConfig(feature_set, trunk=(32, 16), head=16).actor()
    shapes = features.sizes(rules, feature_set)
    blank = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)
    legal = np.ones((1, rules.num_actions), bool)
    return actor, jax.jit(actor.init)(jax.random.key(0), blank, legal)


def act(
    rules: Rules,
    feature_set: FeatureSet,
    actor: StructuredActor,
    params: Any,
    memory: Memory,
    state: State,
) -> np.ndarray:
    _, view = look_at_state(rules, feature_set, memory, state)
    return np.asarray(jax.jit(actor.apply)(params, view, legal_for_mover(rules, state)))


@pytest.mark.parametrize(
    "feature_set",
    [*FEATURE_SETS[:2], *(pytest.param(x, marks=pytest.mark.slow) for x in FEATURE_SETS[2:])],
)
def test_features_are_independent_of_hidden_cards(feature_set: FeatureSet) -> None:
    """The current player's hand is replaced by the next player's, slot by slot; its hints stay."""
    rules = SMALL
    states, memory = play_random_games(rules, feature_set, first_state(rules), jax.random.key(4))
    playing = ~np.asarray(finished(rules, states))
    is_current = np.arange(rules.num_players) == np.asarray(states.player)[:, None]
    full = np.asarray(states.hands != 0).all(axis=(1, 2))

    def swapped(words: np.ndarray) -> np.ndarray:
        return np.where(is_current, np.roll(words, 1, axis=1), words)

    other = states.replace(
        colors=swapped(states.colors), ranks=swapped(states.ranks), deck=states.deck[:, ::-1]
    )
    where = playing & full
    assert where.sum() > BATCH
    one = look_at_state(rules, feature_set, memory, states)
    two = look_at_state(rules, feature_set, memory, other)
    assert_same(*(jax.tree.map(lambda x: np.asarray(x)[where], x) for x in (one, two)))


def test_only_conventions_run_hint_inference(monkeypatch: pytest.MonkeyPatch) -> None:
    rules, rows = SMALL, 5  # a batch size that no other test has traced
    state = jax.tree.map(lambda x: np.asarray(x)[:rows], first_state(rules))

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("the conventions were read")

    for name in ("infer_hands", "infer_hint", "card_facts", "soon_playable"):
        monkeypatch.setattr(convention_features, name, refuse)
    monkeypatch.setattr(hint_inference, "update_common_knowledge", refuse)

    def trace(feature_set: FeatureSet) -> None:
        jax.eval_shape(
            lambda state: features.encode_step(
                rules,
                feature_set,
                init_memory(rules, feature_set, (rows,)),
                from_state(rules, state),
            ),
            state,
        )

    trace("facts")
    trace("hint-history")
    with pytest.raises(AssertionError, match="conventions were read"):
        trace("conventions")


@pytest.mark.slow  # compiles both interpretations of hints
def test_hint_values_match_convention_bot() -> None:
    """The components sum to the bot's own hint value, and the discard loss is equal:
    `convention_features` reimplements both."""
    rules = SMALL
    states, memory = play_random_games(rules, "conventions", first_state(rules), jax.random.key(6))

    @jax.jit
    def both(states: State, memory: Memory) -> Any:
        sight = from_state(rules, states)
        after = features.update_memory(rules, "conventions", memory, sight)
        table = count_cards(rules, sight)
        public = hint_memory.to_common_knowledge(hint_memory.unpack(after), sight)

        def one(public: Any, seen: Any, unseen: jax.Array) -> Any:
            everyone, mine, board, danger, columns = convention_features._read(
                rules, public, seen, unseen
            )
            judged = score_hints(rules, board, public, everyone, mine, seen)
            return columns[-1], danger, judged

        return jax.vmap(one, in_axes=-1)(public, sight, table.unseen[0])

    worth, danger, (place, best, lost) = jax.tree.map(np.asarray, both(states, memory))
    np.testing.assert_array_equal(danger, lost)
    some = np.isfinite(best)  # a hint is possible
    assert some.sum() > BATCH and len(np.unique(best[some])) > BATCH
    np.testing.assert_allclose(worth.max(axis=1)[some], best[some], atol=1e-4)
    chosen = np.take_along_axis(worth, place[:, None], axis=1)[:, 0]
    np.testing.assert_allclose(chosen[some], best[some], atol=1e-4)


@pytest.mark.parametrize("rules", [SMALL, pytest.param(Rules(2), marks=pytest.mark.slow)], ids=str)
def test_card_probs_match_hand_counts(rules: Rules) -> None:
    """Probability that each card of the current player is playable, by counting every card."""
    states, memory = play_random_games(rules, "facts", first_state(rules), jax.random.key(6))
    _, view = look_at_state(rules, "facts", memory, states)
    copies = np.array(rules.num_cards_of_rank * rules.num_colors)
    hands, knowledge, own = (np.asarray(x) for x in (states.hands, states.knowledge, view.own))
    for game in range(0, len(hands), 7):
        me = int(states.player[game])
        others = [seat for seat in range(rules.num_players) if seat != me]
        unseen = copies.copy()
        for card in range(rules.num_cards):
            unseen[card] -= (int(states.fireworks[game]) >> card) & 1
            for plane in np.asarray(states.discards[game]):
                unseen[card] -= (int(plane) >> card) & 1
            unseen[card] -= sum((int(held) >> card) & 1 for held in hands[game, others].ravel())
        color = (1 << rules.num_ranks) - 1
        stack = [
            (int(states.fireworks[game]) >> (rules.num_ranks * c) & color).bit_count()
            for c in range(rules.num_colors)
        ]
        for slot in range(rules.hand_size):
            if hands[game, me, slot] == 0:
                continue
            can_be = [c for c in range(rules.num_cards) if int(knowledge[game, me, slot]) >> c & 1]
            total = sum(unseen[c] for c in can_be)
            good = sum(
                unseen[c] for c in can_be if stack[c // rules.num_ranks] == c % rules.num_ranks
            )
            assert own[game, slot, 3] == pytest.approx(good / total, abs=1e-3)


@pytest.mark.slow
def test_saved_structured_policy_matches_network(tmp_path: Path) -> None:
    rules, network = SMALL, StructuredConfig("hint-history", trunk=(16,), head=8)
    params = init_params(rules, network, jax.random.key(0))
    saved = NetworkPolicy(params=params, rules=rules, network=network)
    save_policy(tmp_path / "policy", saved, algorithm="bc", steps=1, score=None)
    policy = load_policy(tmp_path / "policy")
    assert policy.identity() == saved.identity()
    header = read_metadata(tmp_path / "policy" / "policy.safetensors")
    assert json.loads(header["policy"])["network"] == {
        "kind": "structured",
        "features": "hint-history",
        "trunk": [16],
        "head": 8,
        "card": [64, 32],
        "dropout": 0.3,
        "critic": [256, 128],
    }
    states, memory = play_random_games(rules, "hint-history", first_state(rules), jax.random.key(7))
    legal, obs = legal_for_mover(rules, states), observe_seat(rules, states, states.player)
    reset = jnp.zeros(len(states.last), bool)
    _, logits = jax.jit(type(policy).step)(policy, memory, obs, legal, reset)
    expected = act(rules, "hint-history", network.actor(), {"params": params}, memory, states)
    np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_unknown_feature_set_is_rejected() -> None:
    with pytest.raises(
        ValueError, match="network.features: expected one of facts, hint-history, conventions"
    ):
        StructuredConfig("advice")  # type: ignore[arg-type]
