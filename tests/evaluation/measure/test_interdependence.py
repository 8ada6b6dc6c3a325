"""Hanabi links: by hand, against another implementation's totals, and against the domain-free
reference (`support/links.py`)."""

import collections
import dataclasses
from typing import NamedTuple

import numpy as np
import pytest
from support.games import deck_of, eight_turns, one_game, random_games, shared_data
from support.links import Event, accepts, is_constructive, links_of
from support.links import triggers as find_triggers

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.data.files import load_games
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.evaluation.measure.interdependence_report import interdependence_figures, roles_of
from hanabi_rl.evaluation.measure.intervals import bootstrap_correlation
from hanabi_rl.evaluation.measure.links import (
    OUTCOMES,
    firework_links,
    read_games,
    read_touches,
    token_links,
)
from hanabi_rl.evaluation.measure.registry import MEASURES, measure_figures, measures_of
from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay
from hanabi_rl.games.hanabi.actions import decode, decode_action, encode
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.rules import Rules

SMALL = Rules(num_colors=2, num_ranks=3, hand_size=3, max_info_tokens=4)
ONE_RANK = Rules(num_players=3, num_colors=5, num_ranks=1, hand_size=2, num_cards_of_rank=(3,))
CROWD = Rules(num_players=5, num_colors=3, num_ranks=3, hand_size=3, max_info_tokens=2)


def pairs_of(links, game=0):
    """The links of one game as a set of (giving turn, receiving turn)."""
    of_game = links.game == game
    return set(zip(links.giver[of_game].tolist(), links.receiver[of_game].tolist(), strict=True))


def whole(games):
    """The games marked as finished: per-game measures exclude unfinished ones."""
    return dataclasses.replace(games, unfinished=np.zeros(len(games), bool))


def test_eight_turns_by_hand():
    """R1 and R2 of seat 1 are hinted and played; B3 of seat 0 is hinted and discarded."""
    games = eight_turns()
    read = read_games(games)
    touches = read_touches(read)
    assert pairs_of(touches.links()) == {(0, 1), (2, 3), (5, 6)}
    assert pairs_of(touches.links("constructive")) == {(0, 1), (2, 3)}
    assert pairs_of(touches.links("useful_discard")) == {(5, 6)}
    assert pairs_of(token_links(read)) == {(4, 5), (6, 7)}
    assert pairs_of(firework_links(read)) == set()  # R1 and R2 are both seat 1's
    links = GameAnalysis(games).links
    assert links.hints[0].tolist() == [[0, 2], [2, 0]]
    assert links.accepted[0].tolist() == [[0, 2], [1, 0]]
    assert links.prompt[0].tolist() == [[0, 2], [1, 0]]
    assert links.helpful[0].tolist() == [[0, 2], [0, 0]]
    assert links.hinted_points[0].tolist() == [[0, 2], [0, 0]]
    assert (links.points[0].tolist(), links.steps[0].tolist()) == ([0, 2], [0, 1])
    assert links.turns[0].tolist() == [4, 4]
    record = GameAnalysis(whole(games))
    assert MEASURES["not_helpful"].of(record).mean == 0.5
    assert MEASURES["nonconstructive"].of(record).mean == 1  # B3, discarded
    assert MEASURES["constructive_per_point"].of(record).mean == 2 / 2
    assert MEASURES["linked_turns"].of(record).mean == 1.0
    assert MEASURES["reciprocal"].of(record).mean == 0.0


def test_links_per_point_ignore_score():
    """Two hints on every scoring card, in games of two points and one point. Undefined for seats or
    games without points."""
    deck = deck_of("B2 B3 G4 W4 Y3 R1 R2 Y1 G3 W2")
    hinted = [10, 5 + 4, 15, 5]  # red, a misplay, rank 1, R1
    one = GameAnalysis(whole(one_game(deck, hinted)))
    two = GameAnalysis(
        whole(one_game(deck, [*hinted, 16, 5]))
    )  # rank 2, R2, which red had also touched
    for record, points in ((one, 1), (two, 2)):
        links = 2.0 * points
        assert MEASURES["constructive"].of(record).mean == links
        assert MEASURES["constructive_per_point"].of(record).mean == 2.0
    none = GameAnalysis(whole(one_game(deck, [10, 5 + 4])))
    assert MEASURES["constructive"].of(none).mean == 0
    assert not MEASURES["constructive_per_point"].of(none).defined
    receivers = np.array([[True, False]])  # seat 0 scored no point
    part = one.between(~receivers, receivers)
    assert not MEASURES["constructive_per_point"].of(part).defined


def test_kept_links_exclude_lost_games():
    record = GameAnalysis(random_games(SMALL, 60))
    links, kept = (MEASURES[n].of(record).numerator for n in ("constructive", "constructive_kept"))
    lost = record.games.lives == 0
    assert links[lost].sum() > 0 < links[~lost].sum()
    np.testing.assert_array_equal(kept, np.where(lost, 0, links))


def test_repeated_hint_is_not_constructive():
    deck = deck_of("B2 B3 G4 W4 Y3 R1 Y2 Y1 G3 W2")
    moves = [10, 5 + 4, 10, 5]  # red, seat 1 plays W2 (a misplay), red again, seat 1 plays R1
    read = read_games(one_game(deck, moves))
    assert pairs_of(read_touches(read).links("loop")) == {(2, 3)}
    assert pairs_of(read_touches(read).links("constructive")) == {(0, 3)}
    moves[2] = 15  # rank 1 instead
    read = read_games(one_game(deck, moves))
    assert pairs_of(read_touches(read).links("constructive")) == {(0, 3), (2, 3)}


class Totals(NamedTuple):
    """Totals over all seats and games of a file, in the order of the specification."""

    games: int
    turns: int
    hints: int
    accepted: int
    prompt: int
    helpful: int
    repeats: int
    information: int
    constructive: int
    firework: int
    steps: int
    token: int
    plays: int
    points: int
    hinted_points: int
    hinted_misplays: int
    discards: int
    hinted_useful: int
    hinted_useless: int
    correlation: float


RECORDED = {  # shared/reference/interdependence.md, E2
    "2p_hgroup_bot_val": "109 6654 2373 2317 1565 2167 248 3593 2892 976 1923 1265 2591 2467 2464 "
    "110 1690 33 167 0.872",
    "3p_human_val_41": "41 2302 812 800 459 755 58 1201 1009 566 797 432 1035 1002 876 24 455 14 "
    "67 -0.132",
    "3_player_games_val": "221 12412 4384 4305 2376 4055 333 6456 5543 2885 4241 2326 5528 5346 "
    "4718 97 2500 83 315 0.156",
    "2p_human_with_ai": "1576 77672 33359 31962 23319 22852 5894 49172 28089 5593 12020 18314 22368"
    " 18779 18692 3169 21945 3930 7546 0.947",
    "2p_recorded_bot_8k": "8000 554044 223008 216167 116023 195280 47424 372805 264771 65156 129719"
    " 126171 181440 169675 167392 6040 149596 18358 38352 0.768",
}


def totals_of(games):
    record, read = GameAnalysis(games), read_games(games)
    links, touches, moves = record.links, read_touches(read), read.moves

    def cards(*outcomes):  # a card counts once, with any number of hints
        found = touches.links(*outcomes)
        return len(np.unique(np.stack([found.game, found.receiver]), axis=1).T)

    fresh = np.stack([touches.game, touches.turn])[:, touches.fresh]
    counted = {name: getattr(links, name).sum() for name in ("hints", "accepted", "turns")}
    return Totals(
        **counted,
        games=links.games.sum(),
        prompt=links.prompt.sum(),
        helpful=links.helpful.sum(),
        repeats=moves.is_hint.sum() - len(np.unique(fresh, axis=1).T),
        information=len(touches.links().game),
        constructive=links.outcome("constructive").sum(),
        firework=links.firework.sum(),
        steps=links.steps.sum(),
        token=links.token.sum(),
        plays=moves.is_play.sum(),
        points=links.points.sum(),
        hinted_points=links.hinted_points.sum(),
        hinted_misplays=cards("misplay"),
        discards=moves.is_discard.sum(),
        hinted_useful=cards("useful_discard"),
        hinted_useless=cards("useless_discard"),
        correlation=np.corrcoef(games.points, links.outcome("constructive").sum((1, 2)))[0, 1],
    )


@pytest.mark.parametrize(
    "name", [*list(RECORDED)[:-1], pytest.param("2p_recorded_bot_8k", marks=pytest.mark.slow)]
)
def test_recorded_games_have_known_totals(name):
    games = load_games(shared_data(f"{name}.safetensors"), validate=False)
    *counts, correlation = RECORDED[name].split()
    found = totals_of(games)
    assert found[:-1] == tuple(map(int, counts))
    assert found.correlation == pytest.approx(float(correlation), abs=5e-4)


@pytest.mark.slow  # recorded games
def test_human_ai_links_by_direction():
    games = load_games(shared_data("2p_human_with_ai.safetensors"), validate=False)
    figures = interdependence_figures(GameAnalysis(games), roles_of(games))
    person, ai = figures["pairs"]
    assert (person["giver"], person["receiver"], ai["giver"]) == ("person", "other", "other")
    assert (ai["turns"], person["turns"]) == (39_070, 38_602)
    whole = {
        name: [round(pair[name] * len(games)) for pair in (ai, person)]
        for name in ("constructive", "nonconstructive")
    }
    assert whole == {"constructive": [12_472, 15_617], "nonconstructive": [10_963, 10_120]}
    # E2: 18,779 points, 49,172 information links, 28,089 of them constructive
    assert figures["constructive_per_point"] == pytest.approx(28_089 / 18_779)
    assert figures["nonconstructive"] == pytest.approx((49_172 - 28_089) / 1_576)
    counts = {
        name: [round(pair[name] * len(games)) for pair in (ai, person)]
        for name in ("constructive", "misplays", "useful_discards", "useless_discards", "loops")
    }
    assert counts.pop("constructive") == [12_472, 15_617]
    assert np.sum(list(counts.values()), axis=0).tolist() == [10_963, 10_120]
    for name, of_ai, of_person in (
        ("not_accepted", 15_432, 16_530),
        ("not_prompt", 11_186, 12_133),
        ("not_helpful", 10_348, 12_504),
    ):
        assert ai[name] == pytest.approx(1 - of_ai / 16_203)
        assert person[name] == pytest.approx(1 - of_person / 17_156)
    assert (round(ai["not_helpful"], 3), round(person["not_helpful"], 3)) == (0.361, 0.271)
    low, high = person["not_helpful_ci95"]
    assert low < person["not_helpful"] < high < ai["not_helpful_ci95"][0]


def events_of(rules, deck, moves):
    """Events of one game, and the outcome of each turn's card."""
    table, hinted, events, did = PythonGame(rules, deck), collections.defaultdict(set), [], []
    for turn, action in enumerate(moves.tolist()):
        seat, move, tokens = table.player, decode_action(rules, action), table.info_tokens
        pre, add, delete, outcome = set(), set(), set(), None
        if move.kind in ("color", "rank"):
            owner = (seat + move.offset) % rules.num_players
            touched = [table.hands[owner][slot] for slot in table.touched(move)]
            add = {("told", order, move.kind, owner) for order in touched}
            for order in touched:
                hinted[order].add(("told", order, move.kind, owner))
            pre = delete = {("token", tokens)}
        else:
            order = table.hands[seat][move.slot]
            color, rank = divmod(table.deck[order], rules.num_ranks)
            height = table.fireworks[color]
            pre = {("in", order, seat)} | hinted[order]
            delete = {("in", order, seat)}
            if move.kind == "discard":
                outcome = "useful_discard" if can_score(table, color, rank) else "useless_discard"
            elif height != rank:
                outcome = "misplay"
            else:
                outcome = "score"
                add = {("goal", order), ("firework", color, rank + 1)}
                pre |= {("firework", color, rank)}
                delete |= {("firework", color, rank)}
        table.apply(action)
        if table.info_tokens > tokens:
            add.add(("token", tokens + 1))
        events.append(Event(seat, turn, *map(frozenset, (pre, add, delete))))
        did.append(outcome)
    return events, did


def can_score(table, color, rank):
    """True if a card can be played now or later, given the discards."""
    rules, height = table.rules, table.fireworks[color]
    lost = collections.Counter(table.deck[order] for order in table.discards)
    needed = range(height, rank)
    exhausted = [lost[color * rules.num_ranks + r] == rules.num_cards_of_rank[r] for r in needed]
    return height <= rank and not any(exhausted)


def check_game(games, game):
    """Compare links, triggers and counts of one game with the reference."""
    rules, players = games.rules, range(games.rules.num_players)
    events, did = events_of(rules, games.decks[game], games.moves(game))
    links = links_of(events)
    goals = {("goal", order) for order in range(rules.deck_size)}
    expected = collections.defaultdict(set)
    constructive = []
    for link in links:
        kind, turns = link.given[0], (link.giver.time, link.receiver.time)
        outcome = did[link.receiver.time]
        if kind == "told" and is_constructive(link, events, goals):
            assert outcome == "score"
            constructive.append(link)
            outcome = "constructive"
        expected[(kind, "loop" if outcome == "score" else outcome)].add(turns)
        expected[kind].add(turns)
    read = read_games(games)
    touches, counts = read_touches(read), GameAnalysis(games).links
    assert pairs_of(touches.links(), game) == expected["told"]
    for outcome in OUTCOMES[:-1]:
        assert pairs_of(touches.links(outcome), game) == expected[("told", outcome)], outcome
    assert pairs_of(firework_links(read), game) == expected["firework"]
    assert pairs_of(token_links(read), game) == expected["token"]

    information = [link for link in links if link.given[0] == "told"]
    triggers = find_triggers(events, players, lambda seat, p: p[0] == "told" and p[-1] == seat)
    matrices = {
        name: np.zeros((len(players),) * 2, int) for name in ("hints", "accepted", "prompt")
    }
    matrices["helpful"], matrices["hinted_points"] = (
        np.zeros_like(matrices["hints"]) for _ in range(2)
    )
    for trigger in triggers:
        owner = next(p[-1] for p in trigger.add if p[0] == "told")
        accepted = accepts(trigger, information)
        soon = [link for link in accepted if link.receiver.time - trigger.time < len(players)]
        matrices["hints"][trigger.agent, owner] += 1
        matrices["accepted"][trigger.agent, owner] += bool(accepted)
        matrices["prompt"][trigger.agent, owner] += bool(soon)
        matrices["helpful"][trigger.agent, owner] += bool(accepts(trigger, constructive))
    by_time = sorted(constructive, key=lambda link: link.giver.time, reverse=True)
    first = {link.object: link for link in by_time}  # the earliest remains
    for link in first.values():
        matrices["hinted_points"][link.giver.agent, link.receiver.agent] += 1
    for name, expected_counts in matrices.items():
        np.testing.assert_array_equal(getattr(counts, name)[game], expected_counts, name)
    linked = {event.time for link in links for event in (link.giver, link.receiver)}
    assert counts.linked_turns[game].sum() == len(linked)
    return expected


@pytest.mark.parametrize(
    "rules",
    [SMALL, ONE_RANK, CROWD, Rules(), Rules(num_players=4, max_life_tokens=30)],
    ids=["small", "one-rank", "crowd", "standard", "4 players"],
)
def test_random_games_match_reference(rules):
    games = random_games(rules, 12)
    for game in range(len(games)):
        check_game(games, game)


@pytest.mark.parametrize(
    ("bot", "rules"),
    [
        pytest.param("bot:convention", Rules(), marks=pytest.mark.slow),
        pytest.param("bot:iggi", Rules(num_players=3), marks=pytest.mark.slow),
        ("bot:iggi", Rules(num_colors=3, num_ranks=4, hand_size=4, max_info_tokens=5)),
    ],
    ids=["convention", "iggi, 3 players", "iggi, small"],
)
def test_bot_games_match_reference(bot, rules):
    games = evaluate_selfplay(load_policy(bot, rules), 8, seed=1).records
    found = [check_game(games, game) for game in range(len(games))]
    kinds = {kind for links in found for kind, turns in links.items() if turns}
    assert {("told", "constructive"), "firework", "token"} <= kinds


def test_links_ignore_colour_names():
    rules = Rules(num_colors=3, num_ranks=4, hand_size=4)
    games, colors = random_games(rules, 20), np.array([2, 0, 1])
    moves = decode(rules, games.actions)
    value = np.where(moves.is_color_hint, colors[moves.value % 3], moves.value).astype(np.uint32)
    color, rank = np.divmod(games.decks, rules.num_ranks)
    other = dataclasses.replace(
        games,
        decks=(colors[color] * rules.num_ranks + rank).astype(np.uint8),
        actions=encode(rules, moves._replace(value=value)),
    )
    for ours, theirs in zip(GameAnalysis(games).links, GameAnalysis(other).links, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_role_pairs_sum_to_total():
    games = random_games(CROWD, 30)
    whole = GameAnalysis(games)
    masks = np.random.default_rng(0).random((30, 5)) < 0.5
    parts = [whole.between(g, r).links for g in (masks, ~masks) for r in (masks, ~masks)]
    for name in ("hints", "helpful", "outcomes", "hinted_points", "firework", "token"):
        found = sum(getattr(part, name) for part in parts)
        np.testing.assert_array_equal(found, getattr(whole.links, name))
    np.testing.assert_array_equal(parts[0].turns, whole.links.turns * masks)
    np.testing.assert_array_equal(parts[1].points, whole.links.points * ~masks)
    assert parts[0].games.tolist() == (masks.sum(axis=1) > 1).tolist()


def test_correlation_and_interval():
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    y = 0.6 * x + 0.8 * rng.normal(size=400)
    interval = bootstrap_correlation(x, y)
    assert interval.mean == pytest.approx(np.corrcoef(x, y)[0, 1])
    # for normal variables
    assert interval.std_error == pytest.approx((1 - interval.mean**2) / 20, rel=0.2)
    assert interval.low < interval.mean < interval.high
    assert bootstrap_correlation(x, -3 * x).bounds == pytest.approx([-1, -1])
    with pytest.raises(ValueError, match="two non-constant arrays"):
        bootstrap_correlation(x, np.ones(400))


def test_shared_resamples_keep_intervals():
    record = GameAnalysis(random_games(SMALL, 40))
    measures = measures_of("interdependence")
    figures = measure_figures(record, measures)
    for measure in measures:
        ratio = measure.of(record)
        assert figures[measure.name] == ratio.mean
        assert figures[f"{measure.name}_ci95"] == ratio.bounds
