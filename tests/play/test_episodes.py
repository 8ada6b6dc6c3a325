"""Games between policies: against hand computation, a plain-Python game, and a loop per seat.

Compilation dominates here, so the tests share a few shapes: GAMES parallel games, a few groupings
of seats.
"""

import functools

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import softmax
from support import compiled
from support.games import LENIENT, LENIENT_3P
from support.policies import CountingPolicy, clock_policy, recurrent_policy

from hanabi_rl.agents.policy import act
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.play import episodes
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games
from hanabi_rl.storage.progress import Progress

GAMES = 16
DECKS = evaluation_decks(LENIENT, 2, 0)


def assert_same(first, second):
    for name in ("decks", "actions", "num_actions", "scores", "points", "lives"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)


def deck_played_in_order(cards):
    """A 2-player deck whose cards come up in the order `cards` if both seats always play their
    oldest card."""
    first_hands = [
        0,
        5,
        1,
        6,
        2,
        7,
        3,
        8,
        4,
        9,
    ]  # seat 0 was dealt cards 0-4, seat 1 cards 5-9; then they draw in turn
    deck = np.zeros(50, np.uint8)
    deck[first_hands + list(range(10, 50))] = cards
    return deck


def test_oldest_card_scores_match_hand_computation():
    rules = Rules()
    ascending = list(range(25))  # R1..R5, Y1.., each exactly when it is playable
    spare = [
        0,
        0,
        1,
        2,
        3,
        5,
        5,
        6,
        7,
        8,
        10,
        10,
        11,
        12,
        13,
        15,
        15,
        16,
        17,
        18,
        20,
        20,
        21,
        22,
        23,
    ]
    perfect = deck_played_in_order(ascending + spare)
    # R1 R2 (R1) R3 (R1) (R2)
    bombed = deck_played_in_order([0, 1, 0, 2, 0, 1, *ascending[3:], *spare[3:]])
    oldest = clock_policy(rules, 1)
    records = play_games((oldest, oldest), rules, np.stack([perfect, bombed] * (GAMES // 2)))
    np.testing.assert_array_equal(records.scores[:2], [25, 0])
    np.testing.assert_array_equal(records.points[:2], [25, 3])
    np.testing.assert_array_equal(records.lives[:2], [3, 0])
    np.testing.assert_array_equal(records.num_actions[:2], [25, 6])
    np.testing.assert_array_equal(records.actions[0], [5] * 25 + [20] * 64)
    np.testing.assert_array_equal(records.actions[1], [5] * 6 + [20] * 83)


def test_policies_step_on_idle_turns():
    rules = Rules()
    policy = clock_policy(rules, 3)
    records = play_games((policy, policy), rules, evaluation_decks(rules, GAMES, 0))
    for actions, length in zip(records.actions, records.num_actions, strict=True):
        np.testing.assert_array_equal(actions[:length], rules.hand_size + np.arange(length) % 3)
        assert (actions[length:] == rules.noop).all()


@pytest.mark.parametrize("sample", [False, True])
def test_records_replay_in_python_game(sample):
    rules = LENIENT_3P
    lineup = tuple(recurrent_policy(rules, seed) for seed in (1, 2, 1))
    records = play_games(lineup, rules, evaluation_decks(rules, GAMES, 1), 3, sample=sample)
    for i, length in enumerate(records.num_actions):
        table = PythonGame(rules, records.decks[i])
        for action in records.actions[i, :length]:
            assert not table.over
            table.apply(action)  # raises if the move is illegal
        assert table.over
        assert (records.actions[i, length:] == rules.noop).all()
        assert (table.score, table.points, table.life_tokens) == (
            records.scores[i],
            records.points[i],
            records.lives[i],
        )


def play_seat_by_seat(policies, rules, decks):
    """The plain loop that `play_games` must equal: one call per seat and turn."""
    state = compiled.deal(rules, decks)
    carries = [policy.init_carry(len(decks)) for policy in policies]
    actions = []
    for turn in range(rules.max_turns):
        obs, legal = jax.device_get(
            (compiled.observe(rules, state), compiled.legal_actions(rules, state))
        )
        reset = np.full(len(decks), turn == 0)
        chosen = []
        for seat, policy in enumerate(policies):
            carries[seat], action = act(policy, carries[seat], obs[:, seat], legal[:, seat], reset)
            chosen.append(np.asarray(action))
        player = np.asarray(state.player)
        action = np.stack(chosen, axis=1)[np.arange(len(decks)), player]
        over = np.asarray(compiled.finished(rules, state))
        actions.append(np.where(over, rules.noop, action))
        state, _, _ = compiled.step(rules, state, actions[-1])
    return np.stack(actions, axis=1), np.asarray(compiled.score(rules, state))


def test_grouped_seats_equal_separate_calls(monkeypatch):
    monkeypatch.setattr(episodes, "_SLOT_STEP", 4)  # 16 games are many: one call for all seats
    called, init_carry = [], episodes._init_carry
    monkeypatch.setattr(
        episodes,
        "_init_carry",
        lambda policy, slots: called.append(slots) or init_carry(policy, slots=slots),
    )
    rules, decks = LENIENT_3P, evaluation_decks(LENIENT_3P, GAMES, 2)
    one, two = recurrent_policy(rules, 1), recurrent_policy(rules, 2)
    for lineup, rows in [((one, one, one), [48]), ((one, two, one), [24] * 3)]:
        records = play_games(lineup, rules, decks)
        assert called == rows
        called.clear()
        actions, score = play_seat_by_seat(lineup, rules, decks)
        np.testing.assert_array_equal(records.actions, actions)
        np.testing.assert_array_equal(records.scores, score)
        copies = tuple(policy.replace(weights=dict(policy.weights)) for policy in lineup)
        # equal but distinct objects: three calls instead of one
        assert_same(play_games(copies, rules, decks), records)
        assert called == [24] * 3
        called.clear()


def test_seating_moves_policies_between_seats():
    rules, decks = LENIENT_3P, evaluation_decks(LENIENT_3P, GAMES, 3)
    one, two, three = (recurrent_policy(rules, seed) for seed in (1, 2, 3))
    moved = play_games((one, two, three), rules, decks, seating=(2, 0, 1))
    assert_same(moved, play_games((two, three, one), rules, decks))


def test_games_can_have_different_seatings():
    rules, decks = LENIENT_3P, evaluation_decks(LENIENT_3P, GAMES, 3)
    lineup = tuple(recurrent_policy(rules, seed) for seed in (1, 2, 3))
    seatings = np.array([(2, 0, 1), (0, 1, 2)])
    mixed = play_games(lineup, rules, decks, seating=seatings[np.arange(GAMES) % 2])
    for which, seating in enumerate(seatings):
        alone = play_games(lineup, rules, decks, seating=seating)
        np.testing.assert_array_equal(mixed.actions[which::2], alone.actions[which::2])


def test_sampling_is_seeded_and_greedy_is_deterministic():
    rules, decks = LENIENT, evaluation_decks(LENIENT, GAMES, 4)
    lineup = (recurrent_policy(rules, 1),) * 2
    first, again, other = (play_games(lineup, rules, decks, s, sample=True) for s in (5, 5, 6))
    assert_same(first, again)
    assert (first.actions != other.actions).any()
    greedy = play_games(lineup, rules, decks)
    assert_same(greedy, play_games(lineup, rules, decks))
    assert (first.actions != greedy.actions).any()


@pytest.mark.parametrize("sample", [False, True])
def test_records_ignore_chunk_size(sample):
    rules, decks = LENIENT, evaluation_decks(LENIENT, GAMES, 5)
    policy = recurrent_policy(rules, 1)
    whole = play_games((policy, policy), rules, decks, 7, sample=sample)
    for size in (5, 100):  # a partly filled last chunk, and fewer games than a chunk
        again = play_games((policy, policy), rules, decks, 7, sample=sample, chunk_size=size)
        assert_same(again, whole)


@flax.struct.dataclass
class Gambler:
    """Plays a slot sampled with the key that it receives: random greedy play."""

    rules: Rules = flax.struct.field(pytree_node=False)

    def init_carry(self, batch):
        return jnp.zeros(batch)

    def step(self, carry, obs, legal, reset, key=None):
        action = jax.vmap(lambda k: jax.random.bits(k) % 2)(key) + self.rules.hand_size
        return carry, jnp.where(legal, 5.0 * jax.nn.one_hot(action, self.rules.num_actions), -1e10)


def test_policy_keys_depend_on_seed_game_turn_seat():
    """Each move of every game is determined by its own key."""
    rules, decks = LENIENT_3P, evaluation_decks(LENIENT_3P, GAMES, 5)
    one, two = Gambler(rules), Gambler(rules)
    numbers, turns = np.arange(GAMES)[::-1] + 100, np.arange(rules.max_turns)

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(None, 0, 0, 0))
    def bits_of(key, *address):
        for part in address:
            key = jax.random.fold_in(key, part)
        return jax.random.bits(key)

    seen = []
    for seed in (7, 8):
        root = jax.random.fold_in(jax.random.key(seed), 2**32 - 1)
        records = play_games((one, two, one), rules, decks, seed, game_index=numbers)
        for game_index, number in enumerate(numbers):
            length = records.num_actions[game_index]
            drawn = np.asarray(bits_of(root, np.full(len(turns), number), turns, turns % 3))
            expected = rules.hand_size + drawn[:length] % 2
            np.testing.assert_array_equal(records.actions[game_index, :length], expected)
        seen.append(records.actions)
        for size, lineup, seating in [
            (5, (one, one, one), None),
            (100, (two, one, two), (2, 1, 0)),
        ]:
            again = play_games(
                lineup, rules, decks, seed, game_index=numbers, seating=seating, chunk_size=size
            )
            assert_same(again, records)
    assert (seen[0] != seen[1]).any()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("jax_default_prng_impl", "rbg"),
        ("jax_default_prng_impl", "unsafe_rbg"),
        ("jax_threefry_partitionable", False),
        ("jax_random_seed_offset", 5),
        pytest.param("jax_high_dynamic_range_gumbel", True, marks=pytest.mark.slow),
    ],
)
def test_random_numbers_ignore_jax_settings(setting, value):
    """Sampled games, and the policies' own samples in greedy games."""
    rules, decks = LENIENT, evaluation_decks(LENIENT, GAMES, 5)
    policy, gambler = recurrent_policy(rules, 1), Gambler(rules)

    def play():
        sampled = play_games((policy, policy), rules, decks, 7, sample=True)
        return sampled, play_games((gambler, gambler), rules, decks, 7)

    expected, before = play(), getattr(jax.config, setting)
    stale = setting == "jax_high_dynamic_range_gumbel"  # not in JAX's key of a function
    jax.config.update(setting, value)
    try:
        if stale:
            jax.clear_caches()
        again = play()
    finally:
        jax.config.update(setting, before)
        if stale:
            jax.clear_caches()
    for one, other in zip(again, expected, strict=True):
        assert_same(one, other)


@flax.struct.dataclass
class Lost:
    """From turn `first` on, returns NaN for all legal moves or only for the first."""

    rules: Rules = flax.struct.field(pytree_node=False)
    first: int
    all: bool

    def init_carry(self, batch):
        return jnp.zeros(batch)

    def step(self, carry, obs, legal, reset, key=None):
        turn = jnp.where(reset, 0, carry)
        lost = (turn >= self.first)[:, None] & (self.all | (legal.cumsum(axis=-1) == 1))
        return turn + 1, jnp.where(legal, jnp.where(lost, jnp.nan, 0.0), -1e10)


@pytest.mark.parametrize("sample", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_nan_logits_raise(whole, sample):
    """`argmax` and `categorical` would choose the NaN, and there would be a score."""
    rules, decks = LENIENT_3P, evaluation_decks(LENIENT_3P, GAMES, 5)
    sound = Lost(rules, first=1000, all=whole)
    play = functools.partial(play_games, rules=rules, decks=decks, sample=sample)
    play((sound, sound, sound))
    for first, position, seating, turn in (
        (0, 0, (0, 1, 2), 1),
        (1, 1, (0, 1, 2), 2),
        (4, 2, (0, 1, 2), 6),
        (0, 2, (1, 2, 0), 1),
    ):
        team = [sound] * 3
        team[position] = Lost(rules, first=first, all=whole)
        match = rf"^policy {position}: expected .*, got NaN in game 0, turn {turn}$"
        with pytest.raises(ValueError, match=match):
            play(tuple(team), seating=seating)


def test_sampled_actions_follow_policy_probabilities():
    """First moves of many games on one deck have the policy's probabilities."""
    rules, policy = LENIENT, recurrent_policy(LENIENT, 1, scale=0.5)
    decks = np.repeat(evaluation_decks(rules, 1, 6), 1600, axis=0)
    records = play_games((policy, policy), rules, decks, 0, sample=True, chunk_size=GAMES)
    state = compiled.deal(rules, decks[:1])
    seen = (
        np.asarray(see(rules, state))[:, 0] for see in (compiled.observe, compiled.legal_actions)
    )
    _, logits = compiled.ask(policy, policy.init_carry(1), *seen, np.array([True]))
    counts = np.bincount(records.actions[:, 0], minlength=rules.num_actions)
    np.testing.assert_allclose(counts / 1600, softmax(logits[0]), atol=0.04)


def test_new_parameters_and_seatings_do_not_recompile():
    rules, decks = LENIENT, evaluation_decks(LENIENT, GAMES, 7)
    one, two = recurrent_policy(rules, 1), recurrent_policy(rules, 2)
    play_games((one, two), rules, decks)
    traced = len(one.traces)
    for seed in (3, 4):
        play_games((recurrent_policy(rules, seed), two), rules, decks, seating=(1, 0))
    assert len(one.traces) == traced


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policies": 1}, "expected 2 policies, one per seat, got 1"),
        ({"seating": (0, 0)}, "permutation of 2 seats"),
        (
            {"seating": np.zeros((3, 2))},
            r"expected a seating \[2\] or \[2, 2\], got shape \(3, 2\)",
        ),
        ({"decks": np.zeros((0, 12), int)}, "at least one deck, got none"),
        ({"decks": DECKS[:, :11]}, r"decks of integers \[N, 12\], got uint8 \[2, 11\]"),
        ({"decks": DECKS.astype(float)}, r"decks of integers \[N, 12\], got float64 \[2, 12\]"),
        ({"decks": DECKS.astype(int) + 256}, "deck 0: expected card ids 0 to \\d, got 2\\d\\d"),
        ({"decks": DECKS - np.int8(1)}, "deck 0: expected card ids 0 to \\d, got -1"),
        (
            {"decks": np.stack([DECKS[0], np.zeros(12, int)])},
            "deck 1: expected the 12-card deck with 3 of R1, got 12",
        ),
        ({"rules": Rules()}, "expected policies for 5 colours.*, got policy 0 for"),
        ({"seed": -1}, "a seed from 0 to 4,294,967,295, got -1"),
        ({"seed": 2**32}, "a seed from 0 to 4,294,967,295, got 4294967296"),
        ({"chunk_size": 0}, "chunk_size: expected at least 1, got 0"),
        ({"game_index": np.arange(3)}, r"expected a game_index \[2\], got shape \(3,\)"),
    ],
)
def test_invalid_arguments_are_rejected(arguments, message):
    policies = (recurrent_policy(LENIENT, 1),) * arguments.get("policies", 2)
    options = {"rules": LENIENT, "decks": DECKS} | arguments | {"policies": policies}
    with pytest.raises(ValueError, match=message):
        play_games(**options)


def test_invalid_lineups_are_rejected():
    for policies, got in ((recurrent_policy(LENIENT, 1), "RecurrentPolicy"), (("a", "b"), "'a'")):
        with pytest.raises(ValueError, match=f"expected .*policies.*, got {got}"):
            play_games(policies, LENIENT, DECKS)


@pytest.mark.parametrize("at_once", [2, pytest.param(GAMES, marks=pytest.mark.slow)])
def test_policies_keep_memory_in_series(at_once):
    """One policy counts the games with its partner, in any seat; the other resets every game."""
    rules, length = LENIENT, 4
    counts, clock = CountingPolicy(rules), clock_policy(rules, 1)
    seating = [(k % 2, 1 - k % 2) for k in range(GAMES)]
    records = play_games(
        (counts, clock),
        rules,
        evaluation_decks(rules, GAMES, 0),
        seating=np.array(seating),
        chunk_size=at_once,
        games_per_series=length,
    )
    for number, actions in enumerate(records.actions):
        mine = actions[seating[number][0] :: 2][:2]  # no hand is short yet
        np.testing.assert_array_equal(mine, rules.hand_size + number % length % rules.hand_size)
        np.testing.assert_array_equal(actions[seating[number][1] :: 2][:2], rules.hand_size)
    alone = play_games((counts, clock), rules, evaluation_decks(rules, GAMES, 0))
    assert (alone.actions[:, 0] == rules.hand_size).all()


def test_incomplete_series_is_rejected():
    rules = LENIENT
    policy = clock_policy(rules, 1)
    with pytest.raises(ValueError, match="expected whole series of 3 games, got 16 decks"):
        play_games((policy, policy), rules, evaluation_decks(rules, GAMES, 0), games_per_series=3)


def test_progress_counts_ended_games(monkeypatch):
    policies, decks = (recurrent_policy(LENIENT, 1),) * 2, evaluation_decks(LENIENT, 40, 3)
    positions = []

    class Shown(Progress):
        def update(self, position, **values):
            positions.append(position)

    monkeypatch.setattr(episodes, "Progress", Shown)
    records = play_games(policies, LENIENT, decks, seed=5, sample=True, chunk_size=8)
    assert len(positions) >= records.num_actions.sum() / 8  # one per turn
    assert positions == sorted(positions) and positions[-1] == 40 and len(set(positions)) > 5
