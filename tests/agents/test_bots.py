"""Bots: legality, independence of own cards, colour equivariance, determinism, conventions."""

import functools
import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import compiled as game
from support.bot_scores import SELFPLAY
from support.compiled import observe, permute_actions, permute_decks

from hanabi_rl.agents.bots.base import Bot
from hanabi_rl.agents.bots.hints import all_hints
from hanabi_rl.agents.bots.registry import BOTS, bot_scores, make_bot
from hanabi_rl.agents.policy import Policy
from hanabi_rl.games.hanabi.actions import Move, decode_action, encode_action
from hanabi_rl.games.hanabi.python_game import full_deck
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.state import State, pack_counters
from hanabi_rl.games.overcooked import Overcooked
from hanabi_rl.play.episodes import play_games

GAMES = 200
STANDARD = {players: Rules(num_players=players) for players in (2, 3, 4, 5)}
SMALL = Rules(num_players=2, num_colors=3)
COLORS = "RYGBP"


class Trace(NamedTuple):
    choices: np.ndarray  # int32[T, N, P]: chosen action of each seat's bot, idle ones too
    actions: np.ndarray  # int32[T, N]: actions taken
    legal: np.ndarray  # bool[T, N, P]: True if the chosen action was legal
    over: np.ndarray  # bool[T, N]: the game had ended before this turn
    states: State  # [T, N, ...]
    score: np.ndarray  # int32[N]


@functools.partial(jax.jit, static_argnames="rules")
def _trace(rules: Rules, bot: Policy, decks: jax.Array, forced: jax.Array) -> tuple:
    num, players = decks.shape[0], rules.num_players

    def turn(carry: tuple, inputs: tuple) -> tuple:
        state, memory = carry
        turn_number, given = inputs
        first = turn_number == 0
        legal = game.legal_actions(rules, state).reshape(num * players, -1)
        obs = observe(rules, state).reshape(num * players, -1)
        keys = jax.random.split(jax.random.key(turn_number), num * players)
        memory, logits = bot.step(memory, obs, legal, jnp.full(num * players, first), keys)
        move = jnp.argmax(logits, axis=-1)
        fine = jnp.take_along_axis(legal, move[:, None], axis=1).reshape(num, players)
        move = move.reshape(num, players)
        own = jnp.take_along_axis(move, game.current_player(state)[:, None], axis=1)[:, 0]
        action = jnp.where(given >= 0, given, own).astype(jnp.int32)
        over = game.finished(rules, state)
        return (game.step(rules, state, action)[0], memory), (move, action, fine, over, state)

    start = (game.deal(rules, decks), bot.init_carry(num * players))
    (state, _), steps = jax.lax.scan(turn, start, (jnp.arange(forced.shape[0]), forced))
    return *steps, game.score(rules, state)


def trace(rules: Rules, name: str, decks: np.ndarray, forced: np.ndarray | None = None) -> Trace:
    """Games on `decks` between copies of a bot; `forced` int32[T, N] replaces the bot's moves."""
    if forced is None:
        forced = np.full((rules.max_turns, len(decks)), -1, np.int32)
    return Trace(*jax.device_get(_trace(rules, make_bot(name, rules), decks, forced)))


def shuffled(rules: Rules, seed: int) -> np.ndarray:
    ordered = np.array(full_deck(rules), np.int32)
    return np.random.default_rng(seed).permuted(np.tile(ordered, (GAMES, 1)), axis=1)


@functools.cache
def self_play(players: int, name: str = "convention") -> Trace:
    """Games shared by all tests of a number of players."""
    return trace(STANDARD[players], name, shuffled(STANDARD[players], players))


def assert_legal(games: Trace) -> None:
    assert games.legal[~games.over].all()
    idle = np.arange(games.choices.shape[2]) != games.states.player[:, :, None]
    assert (games.choices[idle & ~games.over[:, :, None]] == games.choices.max()).all()


# --------------------------------------------------------------------------------------------------
# the registry


def test_bot_names_and_versions() -> None:
    assert type(make_bot("bot:random", SMALL)) is type(make_bot("random", SMALL)) is BOTS["random"]
    with pytest.raises(ValueError, match="bot:convention, .*got 'bot:humn'"):
        make_bot("bot:humn", SMALL)


def test_bots_have_distinct_treedefs() -> None:
    """In jaxlib 0.10, pytree structures of two dataclasses are equal if their static fields are:
    with a hash collision, a jitted function runs one bot in place of another."""
    rules = {None: SMALL, "hanabi": SMALL, "overcooked": Overcooked()}
    made = {name: make_bot(name, rules[bot.game]) for name, bot in BOTS.items()}
    structures = {name: jax.tree.structure(bot) for name, bot in made.items()}
    for one, other in itertools.combinations(structures, 2):
        assert structures[one] != structures[other], (one, other)
    assert structures["simple"] == jax.tree.structure(make_bot("simple", SMALL))


def test_redefined_class_gets_new_treedef():
    """As when a notebook cell runs again: compiled code of the old class is not reused."""

    def cell():
        class Careful(Bot):
            name, version = "careful", "1"

        return Careful(SMALL)

    old, new = cell(), cell()
    assert old.identity() == new.identity()
    assert jax.tree.structure(old) != jax.tree.structure(new)


def test_observation_of_other_game_is_rejected() -> None:
    bot = make_bot("convention", STANDARD[2])
    batch = (np.zeros((1, STANDARD[3].obs_size)), np.ones((1, 21), bool), np.ones(1, bool))
    with pytest.raises(ValueError, match=r"must have shape \[658\] for 2 players, got \[956\]"):
        bot.step(bot.init_carry(1), *batch)


# --------------------------------------------------------------------------------------- bot:random


@pytest.fixture(scope="module")
def random_choices() -> np.ndarray:
    """Greedy choices int[2, 4000] for two lists of keys; legal actions are 1, 4, 5 and 9."""
    rows, bot = 4000, make_bot("random", SMALL)
    legal = np.tile(np.isin(np.arange(SMALL.num_actions), [1, 4, 5, 9]), (rows, 1))
    obs = np.zeros((rows, SMALL.obs_size), np.float32)
    choices = []
    for seed in (0, 1):
        keys = jax.random.split(jax.random.key(seed), rows)
        _, logits = game.ask(bot, bot.init_carry(rows), obs, legal, np.ones(rows, bool), keys)
        choices.append(np.asarray(logits).argmax(axis=-1))
    return np.stack(choices)


def test_random_bot_is_uniform(random_choices: np.ndarray) -> None:
    actions, counts = np.unique(random_choices[0], return_counts=True)
    assert actions.tolist() == [1, 4, 5, 9]
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(4000 * 0.25 * 0.75)
    assert (random_choices[0] == random_choices[1]).mean() < 0.5


def test_random_bot_distribution_without_key() -> None:
    bot = make_bot("random", SMALL)
    legal = np.arange(SMALL.num_actions) < np.array([[1], [4], [7]])
    obs = np.zeros((3, SMALL.obs_size), np.float32)
    carry, logits = game.ask(bot, bot.init_carry(3), obs, legal, np.ones(3, bool))
    assert jax.tree.leaves(carry) == []  # no internal randomness
    expected = np.where(legal, -np.log([[1.0], [4.0], [7.0]]), -1e10)
    np.testing.assert_allclose(logits, expected, rtol=1e-6)


@pytest.mark.slow
def test_random_bot_is_batch_invariant() -> None:
    """Its randomness depends on the key of the game, not on the order or the number of games."""
    bot, decks = make_bot("random", SMALL), shuffled(SMALL, 0)
    games = play_games((bot, bot), SMALL, decks, seed=3)
    number = np.arange(GAMES)[::-1]
    again = play_games((bot, bot), SMALL, decks[number], seed=3, game_index=number, chunk_size=40)
    np.testing.assert_array_equal(again.actions[number], games.actions)
    assert len({tuple(game) for game in games.actions}) == GAMES
    one_deck = play_games((bot, bot), SMALL, np.repeat(decks[:1], 50, axis=0), seed=3)
    assert len({tuple(game) for game in one_deck.actions}) == 50
    assert_legal(trace(SMALL, "random", decks))


# ----------------------------------------------------------------------------------- bot:convention


@pytest.mark.parametrize(
    "players", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 4, 5))]
)
def test_convention_bot_is_legal_and_scores_high(players: int) -> None:
    """Means of 5,000 games: 23.5, 23.4, 23.0 and 21.6; minima: five standard errors of 200 games
    below."""
    games = self_play(players)
    assert_legal(games)
    assert games.score.mean() > {2: 22.6, 3: 22.7, 4: 22.3, 5: 21.0}[players]
    assert (games.score == 0).sum() <= 3


def test_listed_scores_match_bot_versions() -> None:
    """They also match the published scores, whose standard errors are 0.02 to 0.03 (`internal`:
    0.06)."""
    for name, bot in BOTS.items():
        scores = bot_scores(name)
        if bot.game == "overcooked":
            assert not scores
            continue
        listed = list(map(str, bot.listed_players))
        assert list(scores) == listed, "python benchmarks/bots.py --write yes"
        for players, published in SELFPLAY.get(name, {}).items():
            points, (low, high) = (
                scores[str(players)]["points"],
                scores[str(players)]["points_ci95"],
            )
            assert abs(points - published) < 0.1 + (high - low) / 2, (name, players)
    listed, games = bot_scores("convention")["2"], self_play(2).score
    assert abs(games.mean() - listed["mean"]) < 4 * games.std() / np.sqrt(GAMES)
    assert listed["ci95"][0] < listed["mean"] < listed["ci95"][1] and listed["games"] == 5000


@pytest.mark.slow
def test_convention_bot_plays_small_games() -> None:
    games = trace(SMALL, "convention", shuffled(SMALL, 0))
    assert_legal(games)
    assert games.score.mean() > 13.8  # of 15; 14.27 over 2,048 games


def test_convention_bot_is_deterministic() -> None:
    again = trace(STANDARD[2], "convention", shuffled(STANDARD[2], 2))
    np.testing.assert_array_equal(again.actions, self_play(2).actions)


@pytest.mark.parametrize("players", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_convention_bot_is_color_equivariant(players: int) -> None:
    """Exact equality: no tie is broken by colour."""
    rules, games = STANDARD[players], self_play(players)
    perm = np.random.default_rng(1).permuted(
        np.tile(np.arange(5, dtype=np.int32), (GAMES, 1)), axis=1
    )
    renamed = trace(
        rules,
        "convention",
        np.asarray(permute_decks(rules, shuffled(rules, players), jnp.asarray(perm))),
    )
    expected = np.asarray(permute_actions(rules, jnp.asarray(games.actions), jnp.asarray(perm)))
    played = ~games.over
    np.testing.assert_array_equal(renamed.actions[played], expected[played])


@pytest.mark.parametrize(
    "rules", [STANDARD[5], Rules(5, num_colors=2, num_ranks=9, hand_size=2)], ids=["5p", "9 ranks"]
)
def test_hint_ties_break_by_player_type_rank(rules: Rules) -> None:
    """Nearer players first, ranks before colours whatever slots they touch, high ranks first."""
    hints, colors, ranks = all_hints(rules), rules.num_colors, rules.num_ranks
    ways = []
    for place, receiver in enumerate(hints.target.argmax(axis=1)):
        if not hints.is_rank[place]:
            for touched in (1, rules.all_slots):
                ways.append(((-receiver, 0, touched), int(hints.order[place]) + touched))
        else:
            rank = (place - (rules.num_players - 1) * colors) % ranks
            ways.append(((-receiver, 1, rank), int(hints.order[place])))
    by_rule, by_number = (sorted({way[i] for way in ways}) for i in (0, 1))
    assert len(by_rule) == len(by_number) == (rules.num_players - 1) * (2 + ranks)
    assert all(by_rule.index(rule) == by_number.index(number) for rule, number in ways)


@pytest.mark.parametrize(
    ("players", "name"),
    [
        (2, "convention"),
        pytest.param(3, "convention", marks=pytest.mark.slow),
        pytest.param(2, "rules", marks=pytest.mark.slow),
    ],
)
def test_action_is_independent_of_own_cards(players: int, name: str) -> None:
    """Swap a card in the current player's hand with an undealt one that fits all its hints, and
    replay the moves."""
    rules, games, turn = STANDARD[players], self_play(players, name), 24
    rng, decks = np.random.default_rng(players), shuffled(rules, players)
    state = jax.tree.map(lambda leaf: leaf[turn], games.states)
    seat, swapped, changed = turn % players, decks.copy(), np.zeros(GAMES, bool)
    hands, knowledge = (np.asarray(x)[:, seat] for x in (state.hands, state.knowledge))
    for n in range(GAMES):
        card = int(np.log2(hands[n, slot := rng.integers(rules.hand_size)]))
        undealt = decks[n, rules.deck_size - state.deck_left[n] :]
        fits = [c for c in undealt if c != card and knowledge[n, slot] >> int(c) & 1]
        if fits and not games.over[turn, n]:
            place = _deal_position(rules, games, n, turn, seat, slot)
            assert decks[n, place] == card
            other = (
                rules.deck_size - int(state.deck_left[n]) + undealt.tolist().index(rng.choice(fits))
            )
            swapped[n, [place, other]] = swapped[n, [other, place]]
            changed[n] = True
    replayed = trace(rules, name, swapped, forced=games.actions)
    assert changed.sum() > GAMES / 2
    np.testing.assert_array_equal(
        replayed.choices[: turn + 1, :, seat], games.choices[: turn + 1, :, seat]
    )
    others = [other for other in range(players) if other != seat]
    assert (
        replayed.choices[: turn + 1, changed][..., others]
        != games.choices[: turn + 1, changed][..., others]
    ).any()


def _deal_position(rules: Rules, games: Trace, n: int, turn: int, seat: int, slot: int) -> int:
    """Deck position of the card that `seat` holds in `slot` before `turn`."""
    hands = [
        list(range(p * rules.hand_size, (p + 1) * rules.hand_size))
        for p in range(rules.num_players)
    ]
    drawn = rules.num_players * rules.hand_size
    for t in range(turn):
        move = decode_action(rules, games.actions[t, n])
        if move.slot >= 0:
            hand = hands[t % rules.num_players]
            del hand[move.slot]
            hand.append(drawn)
            drawn += 1
    return hands[seat][slot]


# -------------------------------------------------------------------------------------- conventions


def cards(text: str) -> list[int]:
    """``"R1 P5"`` as card ids."""
    return [COLORS.index(name[0]) * 5 + int(name[1]) - 1 for name in text.split()]


def as_set(text: str) -> int:
    return sum(1 << card for card in cards(text))


class Table:
    """A 2-player game on a constructed deck, with the bots' moves or given ones."""

    rules = STANDARD[2]

    def __init__(self, first: str, second: str) -> None:
        """Hands of seats 0 and 1, oldest card first."""
        hands, rest = cards(first) + cards(second), full_deck(self.rules)
        for card in hands:
            rest.remove(card)
        deck = np.array([hands + rest], np.int32)
        self.state = jax.device_get(game.deal(self.rules, deck))
        self.memory = None

    def hint(self, seat: int, slot: int, candidates: str) -> "Table":
        """Make a card hinted, with these candidates."""
        state, hand, possible = self.state, self.rules.hand_size, as_set(candidates)

        def bits_of(word: np.ndarray, groups: tuple[int, ...]) -> np.ndarray:
            """The slot's bits of a hand word: groups of the candidates, and a named flag if there
            is one group."""
            left = [g for g, cards in enumerate(groups) if possible & cards]
            every = sum(1 << (g * hand + slot) for g in range(len(groups) + 1))
            bits = sum(
                1 << (g * hand + slot) for g in (left if len(left) > 1 else [*left, len(groups)])
            )
            word = word.copy()
            word[0, seat] = word[0, seat] & ~np.uint32(every) | np.uint32(bits)
            return word

        self.state = state.replace(
            possible_colors=bits_of(state.possible_colors, self.rules.color_cards),
            possible_ranks=bits_of(state.possible_ranks, self.rules.rank_cards),
        )
        return self

    def board(self, played: str = "", info: int = 8, lives: int = 3) -> "Table":
        state = self.state
        counters = _counters(state, np.array([info]), np.array([lives]))
        self.state = state.replace(
            fireworks=np.array([as_set(played)], np.uint32), counters=np.asarray(counters)
        )
        return self

    def move(self) -> Move:
        """Move of the bot whose turn it is; both bots update their notes."""
        bot, first = make_bot("convention", self.rules), self.memory is None
        memory = bot.init_carry(2) if first else self.memory
        self.memory, action = _look(bot, self.state, memory, np.full(2, first))
        return decode_action(self.rules, int(np.asarray(action)[int(_player(self.state))]))

    def play(self) -> Move:
        move = self.move()
        return self.force(move)

    def force(self, move: Move) -> Move:
        action = np.array([encode_action(self.rules, move)], np.int32)
        self.state = jax.device_get(game.step(self.rules, self.state, action)[0])
        return move


@jax.jit
def _counters(state: State, info: jax.Array, lives: jax.Array) -> jax.Array:
    places = {"player": state.player, "last_round": state.last_round}
    return pack_counters(state.deck_left, info, lives, **places)


@jax.jit
def _player(state: State) -> jax.Array:
    return state.player[0]


@jax.jit
def _look(bot: Policy, state: State, memory: tuple, reset: jax.Array) -> tuple:
    rules = Table.rules
    memory, logits = bot.step(
        memory, observe(rules, state)[0], game.legal_actions(rules, state)[0], reset
    )
    return memory, jnp.argmax(logits, axis=-1)


JUNK = "R4 R4 Y4 Y4 G4"


def test_ones_are_hinted_and_played() -> None:
    table = Table(JUNK, "R3 R1 Y1 B3 G1")
    assert table.play() == Move("rank", offset=1, value=0)
    assert table.play() == Move("play", slot=4)


def test_focus_off_chop_is_newest_card() -> None:
    table = Table(JUNK, "P4 R2 B4 B3 P2").board(played="R1")
    assert table.play() == Move("color", offset=1, value=0)
    assert table.play() == Move("play", slot=1)


def test_five_on_chop_is_saved() -> None:
    table = Table("R4 R4 Y4 Y4 R3", "R5 P4 P4 B4 B4").board(info=3)
    assert table.play() == Move("rank", offset=1, value=4)
    assert table.play() == Move("discard", slot=1)


def test_save_hint_precedes_play() -> None:
    safe = Table("R2 R4 Y4 Y4 G4", "P4 P4 B4 B4 R5").hint(0, 0, "R2").board(played="R1", info=3)
    assert safe.move() == Move("play", slot=0)
    urgent = Table("R2 R4 Y4 Y4 G4", "R5 P4 P4 B4 B4").hint(0, 0, "R2").board(played="R1", info=3)
    assert urgent.move() == Move("rank", offset=1, value=4)


def test_known_trash_is_discarded_before_chop() -> None:
    table = Table("B3 B4 R1 B2 B1", "P4 P4 Y4 Y4 G4").board(played="R1", info=0)
    assert table.move() == Move("discard", slot=0)
    table = Table("B3 B4 R1 B2 B1", "P4 P4 Y4 Y4 G4").hint(0, 2, "R1").board(played="R1", info=0)
    assert table.move() == Move("discard", slot=2)


def test_good_touch_is_ignored_on_last_life() -> None:
    hands = ("B3 B4 R2 B2 B1", "P4 P4 Y4 Y4 G4")
    assert Table(*hands).hint(0, 2, "R1 R2").board("R1", info=0).move() == Move("play", slot=2)
    assert Table(*hands).hint(0, 2, "R1 R2").board("R1", info=0, lives=1).move() == Move(
        "discard", slot=0
    )


def test_awaited_card_is_played_first() -> None:
    hands = ("B3 R2 Y4 Y2 B1", "P4 P4 R3 R4 G4")
    waiting = (
        Table(*hands).hint(0, 1, "R2").hint(0, 3, "Y2").hint(1, 2, "R3").board("R1 Y1", info=0)
    )
    assert waiting.move() == Move("play", slot=1)
    assert Table(*hands).hint(0, 1, "R2").hint(0, 3, "Y2").board("R1 Y1", info=0).move() == Move(
        "play", slot=3
    )


def test_known_last_copy_is_excluded_elsewhere() -> None:
    """Two hinted cards can be R5 or Y5, and one of them is hinted to be R5: the other is Y5 and is
    played."""
    table = Table("R5 B3 Y5 B4 G4", "P4 P4 R3 R4 G4").hint(0, 0, "R5").hint(0, 2, "R5 Y5")
    assert table.board("Y1 Y2 Y3 Y4", info=0).move() == Move("play", slot=2)
