"""Runner: partners of many games per tick play the games of `play_games`, action by action."""

import dataclasses
from types import SimpleNamespace

import flax.struct
import jax
import numpy as np
import pytest
from support.compiled import ask, init_network
from support.games import TINY_3P

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.nn.networks import Actor, NetworkConfig
from hanabi_rl.people.serve import runner, ticks
from hanabi_rl.people.serve.inference_process import _query
from hanabi_rl.people.serve.lifecycle import Game, MoveMade, advance
from hanabi_rl.people.serve.numpy_interpreter import NumPyInterpreter
from hanabi_rl.people.serve.runner import PartnerRunner
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games

GAMES, SLOTS, SEED = 8, 4, 7


@pytest.fixture(scope="module")
def lineup():
    """A recurrent policy at two seats and a stochastic bot."""
    network = NetworkConfig(embedding=(8,), lstm=(8,), decoder=(8,))
    actor = Actor(network, TINY_3P.num_actions)
    params = init_network(actor, jax.random.key(5), network, TINY_3P.obs_shape, TINY_3P.num_actions)
    trained = NetworkPolicy(params=params, rules=TINY_3P, network=network)
    return (trained, load_policy("bot:random", TINY_3P), trained)


@pytest.fixture(scope="module")
def partners(lineup):
    return PartnerRunner(lineup, TINY_3P, slots=SLOTS, seed=SEED)


@pytest.fixture(scope="module")
def played(lineup):
    """Games of `play_games` with the lineup on some decks, and the same games without moves."""
    decks = evaluation_decks(TINY_3P, GAMES, 3)
    of_each_policy = [lineup[seat] for seat in (0, 2, 1)]  # all orders of a team share a program
    records = play_games(of_each_policy, TINY_3P, decks, SEED, seating=np.array([0, 2, 1]))
    games = [Game(i, TINY_3P, tuple(map(int, deck)), frozenset()) for i, deck in enumerate(decks)]
    return records, games


def move(game, action):
    return advance(game, MoveMade(game.current_player, game.turn, action))[0]


def play(partners, games, chosen=None, disturb=lambda turn: None):
    """Play the games to their ends; moves of a person's seat in `chosen` are given."""
    done, turn = {}, 0
    while games:
        disturb(turn)
        batch = [game for game in games if game.current_player not in game.people]
        answers = dict(zip([g.game_id for g in batch], partners.partner_action(batch), strict=True))
        moved = []
        for game in games:
            answer = answers.get(game.game_id)
            moved.append(
                move(game, chosen[game.game_id][turn] if answer is None else answer.action)
            )
        done |= {game.game_id: game for game in moved if game.status == "done"}
        games, turn = [game for game in moved if game.status == "active"], turn + 1
    return done


def assert_same(done, records, games=GAMES):
    assert len(done) == games
    for number, game in done.items():
        length = records.num_actions[number]
        assert game.moves == tuple(records.actions[number, :length]), number
        assert game.table().score == records.scores[number]


def test_games_equal_play_games_without_recompilation(partners, played):
    records, games = played
    ready = ticks.advance._cache_size(), ticks.step._cache_size()
    assert_same(play(partners, games), records)  # twice as many games as slots: rebuilt again
    assert (ticks.advance._cache_size(), ticks.step._cache_size()) == ready


def test_numpy_games_equal_play_games(lineup, played):
    """An LSTM at two seats and a stochastic bot, two games in one slot, without compilation."""
    records, games = played
    known = ticks.advance._cache_size(), ticks.step._cache_size()
    done = play(PartnerRunner(lineup, TINY_3P, 1, SEED, run=NumPyInterpreter()), games[:2])
    assert_same(done, records, games=2)
    assert (ticks.advance._cache_size(), ticks.step._cache_size()) == known


@pytest.mark.slow  # test_series.py has a network with all features in a small game
@pytest.mark.parametrize("agent", ["agent:hgroup-2p", "bot:smart"])
def test_numpy_agent_equals_compiled(agent):
    """Full deck: all structured features, all loops of the bot."""
    rules = Rules(num_players=2)
    team = (load_policy(agent, rules),) * 2
    deck = evaluation_decks(rules, 1, 5)[0]
    compiled, plain = PartnerRunner(team, rules), PartnerRunner(team, rules, run=NumPyInterpreter())
    game = Game(0, rules, tuple(map(int, deck)), frozenset())
    while game.status == "active":
        one, other = compiled.partner_action([game])[0], plain.partner_action([game])[0]
        assert one.action == other.action
        np.testing.assert_allclose(other.probabilities, one.probabilities, atol=2e-6)
        game = move(game, one.action)
    assert len(game.moves) > rules.deck_size - 10  # the deck was drawn


def test_partners_are_independent_of_person_seat(lineup, played):
    """The person makes its seat's policy's moves; the two partners must make theirs."""
    records, games = played
    for seat in (0, 1):
        others = tuple(policy for other, policy in enumerate(lineup) if other != seat)
        partners = PartnerRunner(others, TINY_3P, slots=SLOTS, seed=SEED)
        seated = [dataclasses.replace(game, people=frozenset({seat})) for game in games]
        assert_same(play(partners, seated, chosen=records.actions), records)


@pytest.mark.parametrize("long", [False, True])
def test_policy_has_choices_only_on_its_turns(played, long):
    """Unused rows of a tick have no choice, where a search would otherwise run; in a replayed game,
    a search runs only at the queried turn."""
    turns = []

    @flax.struct.dataclass
    class Counted:
        rules: Rules = flax.struct.field(pytree_node=False)
        # a static field: two classes of equal static fields may share one compiled program
        runs_search: bool = flax.struct.field(pytree_node=False, default=long)

        def init_carry(self, batch):
            return jax.numpy.zeros((batch, 1))

        def step(self, carry, obs, legal, reset, key=None):
            jax.debug.callback(turns.append, (~legal[:, self.rules.noop]).sum())
            carry = jax.numpy.where(reset[:, None], 0, carry) + obs.sum(axis=1, keepdims=True)
            order = (jax.numpy.arange(legal.shape[1]) + 7 * carry) % legal.shape[1]
            return carry, jax.numpy.where(legal, order, -1e10)

    game = dataclasses.replace(played[1][0], people=frozenset({0}))
    partners = PartnerRunner((Counted(TINY_3P), Counted(TINY_3P)), TINY_3P, SLOTS)
    for person, others in ((-1, 2), (0, 1)):  # a hint, then a discard
        table = game.table()
        legal = [a for a in range(TINY_3P.num_actions) if table.illegal_reason(a) is None]
        game = move(game, legal[person])
        for _ in range(others):
            last, answer = game, partners.partner_action([game])[0]
            game = move(game, answer.action)
    jax.effects_barrier()
    assert max(turns) == 1
    assert sum(turns) == 3
    turns.clear()
    partners.forget()
    (again,) = partners.partner_action([last])
    jax.effects_barrier()
    assert again.action == answer.action
    np.testing.assert_array_equal(again.probabilities, answer.probabilities)
    assert sum(turns) == (1 if long else 3)


def test_killed_runner_is_rebuilt_from_moves(partners, played):
    records, games = played
    assert_same(
        play(partners, games, disturb=lambda turn: partners.forget() if turn % 3 else None), records
    )


def fail(*arguments):
    raise FloatingPointError("in the middle of a tick")


def fail_and_lose(memory, *arguments):
    for array in jax.tree.leaves(memory):
        array.delete()  # as XLA does with donated arrays
    fail()


@pytest.mark.parametrize("failing", [fail, fail_and_lose])
def test_failed_tick_repeats_no_move(partners, played, monkeypatch, failing):
    """A policy failed after the games had advanced; they continue as if nothing had happened."""
    records, games = played
    to_fail = []

    def step(*arguments):
        return failing(*arguments) if to_fail and to_fail.pop() else ticks.step(*arguments)

    monkeypatch.setattr(runner, "step", step)
    careful = SimpleNamespace(
        partner_action=lambda games: _query(partners, games, [(0, 1, 2)] * len(games))
    )
    assert_same(play(careful, games, disturb=lambda turn: to_fail.append(turn in (2, 5))), records)

    def again(games):  # as after a page reload
        try:
            return partners.partner_action(games)
        except FloatingPointError:
            return partners.partner_action(games)

    flaky = SimpleNamespace(partner_action=again)
    assert_same(play(flaky, games, disturb=lambda turn: to_fail.append(turn in (2, 5))), records)


def test_action_is_most_probable_legal_move(partners, played):
    _, games = played
    answer = partners.partner_action(games[:1])[0]
    table = games[0].table()
    legal = [table.illegal_reason(action) is None for action in range(TINY_3P.num_actions)]
    assert answer.probabilities.shape == (TINY_3P.num_actions,)
    np.testing.assert_array_equal(answer.probabilities > 0, legal)
    assert answer.probabilities.sum() == pytest.approx(1, abs=1e-5)
    assert answer.action == answer.probabilities.argmax()


def test_action_depends_on_earlier_moves(partners, played):
    """A slot with the wrong turn or another game's memory would answer the same."""
    records, games = played
    before = partners.partner_action(games[:1])[0].probabilities
    later = games[0]
    for action in records.actions[0, :3]:  # its next move
        later = move(later, int(action))
    after = partners.partner_action([later])[0].probabilities
    assert np.abs(before - after).max() > 1e-6
    np.testing.assert_array_equal(partners.partner_action(games[:1])[0].probabilities, before)


@pytest.mark.slow  # one team is played above
def test_several_teams_share_ticks(lineup, played):
    """Two policies at three seats in every order, each game as in `play_games`."""
    _, games = played
    trained, chance, _ = lineup
    several = PartnerRunner((trained, chance), TINY_3P, slots=GAMES, seed=SEED)
    teams = [(0, 1, 0), (1, 0, 0), (0, 0, 1), (1, 1, 0), (0, 1, 0), (0, 1, 1), (1, 0, 0), (0, 0, 1)]
    decks = np.array([game.deck for game in games], np.uint8)
    expected = []
    for team in teams:
        seated = tuple((trained, chance)[policy] for policy in sorted(team))
        seating = np.argsort(team, kind="stable")  # all orders of a team share a program
        expected.append(play_games(seated, TINY_3P, decks, SEED, seating=seating))
    while games:
        here = [teams[game.game_id] for game in games]
        answers = several.partner_action(games, here)
        games = [move(game, answer.action) for game, answer in zip(games, answers, strict=True)]
        for game in games:
            record = expected[game.game_id]
            assert game.moves == tuple(record.actions[game.game_id, : game.turn])
        games = [game for game in games if game.status == "active"]


def test_one_game_at_two_turns_gets_both_actions(partners, played):
    """After a disconnect, the game restarts on another connection."""
    records, games = played
    later = games[0]
    for action in records.actions[0, :2]:
        later = move(later, int(action))
    queries = [later, games[0], later, games[1]]
    answers = [answer.action for answer in partners.partner_action(queries)]
    assert answers == [
        records.actions[number, turn] for number, turn in [(0, 2), (0, 0), (0, 2), (1, 0)]
    ]


def test_invalid_lineups_are_refused(partners, played):
    _, games = played
    with pytest.raises(ValueError, match="expected partners for 3 players, 2 colours"):
        PartnerRunner((load_policy("bot:random", Rules()),), TINY_3P)
    with pytest.raises(ValueError, match="expected 3 seats for the partners, got 2"):
        partners.partner_action([dataclasses.replace(games[0], people=frozenset({0}))])


def test_partner_memory_round_trip(lineup, played):
    """A recurrent policy after a previous game: its memory after the first decision equals stepping
    by hand from the initial memory, also when replayed after `forget`."""
    policy = lineup[0]
    _, games = played
    game = dataclasses.replace(games[0], people=frozenset({1, 2}))
    memory = jax.tree.map(
        lambda leaf: np.full(leaf.shape[1:], 0.5, leaf.dtype), policy.init_carry(1)
    )
    partners = PartnerRunner([policy], TINY_3P, slots=SLOTS, run=NumPyInterpreter(), show=True)
    (answer,) = partners.partner_action([game], initial_memories=[memory])
    seen = answer.seats.observations[:1], answer.seats.legal[:1]
    carry = jax.tree.map(lambda leaf: leaf[None], memory)
    carry, logits = ask(policy, carry, *seen, np.zeros(1, bool))
    expected = jax.tree.leaves(jax.tree.map(lambda leaf: np.asarray(leaf[0]), carry))
    for _ in range(2):
        found = jax.tree.leaves(partners.memory(game.game_id))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)
        partners.forget()
        partners.partner_action([game], initial_memories=[memory])
    assert answer.action == int(np.argmax(logits[0]))
    (first,) = partners.partner_action([dataclasses.replace(game, game_id=99)])
    fresh = jax.tree.leaves(partners.memory(99))
    assert any(not np.allclose(one, other) for one, other in zip(fresh, expected, strict=True))
    assert first.probabilities.shape == answer.probabilities.shape
    with pytest.raises(ValueError, match="expected one partner with memory, got 3"):
        PartnerRunner(lineup, TINY_3P, slots=1, run=NumPyInterpreter()).partner_action(
            [games[0]], initial_memories=[memory]
        )
