"""Convention gap, against an enumeration of all hands in plain Python, and NumPy."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from support.games import random_games

from hanabi_rl.data.games import Games
from hanabi_rl.evaluation.measure.convention_gap import (
    PLAY_KINDS,
    LiteralChances,
    convention_gap,
    counted_plays,
    gap_figures,
    gap_floor,
)
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.evaluation.measure.turn_masks import with_counted_seats
from hanabi_rl.games.hanabi.actions import decode_action
from hanabi_rl.games.hanabi.python_game import PythonGame, full_deck
from hanabi_rl.games.hanabi.rules import Rules

SMALL = Rules(num_colors=2, num_ranks=3, hand_size=3, max_info_tokens=4, max_life_tokens=3)


def by_enumeration(games: Games) -> dict[tuple[int, int], tuple[float, bool, bool]]:
    """(game, turn) of each play -> probability of success over all hands, success, hinted."""
    rules, found = games.rules, {}
    for game, deck in enumerate(games.decks):
        table = PythonGame(rules, deck)
        for turn, action in enumerate(games.actions[game, : games.num_actions[game]]):
            move = decode_action(rules, int(action))
            if move.kind == "play":
                hand, others = table.hands[table.player], table.hands[1 - table.player]
                played = [c * rules.num_ranks + r for c, r in by_color(table)]
                copies = full_deck(rules)
                for card in [*played, *(table.deck[o] for o in (*table.discards, *others))]:
                    copies.remove(card)
                allowed = [
                    [
                        place
                        for place, card in enumerate(copies)
                        if card // rules.num_ranks in table.knowledge[order].colors
                        and card % rules.num_ranks in table.knowledge[order].ranks
                    ]
                    for order in hand
                ]
                hands = [h for h in itertools.product(*allowed) if len(set(h)) == len(h)]
                fits = [
                    c * rules.num_ranks + top
                    for c, top in enumerate(table.fireworks)
                    if top < rules.num_ranks
                ]
                right = sum(copies[h[move.slot]] in fits for h in hands)
                known = table.knowledge[hand[move.slot]]
                hinted = known.hinted_color is not None or known.hinted_rank is not None
                card = table.deck[hand[move.slot]]
                found[game, turn] = right / len(hands), card in fits, hinted
            table.apply(int(action))
    return found


def by_color(table: PythonGame) -> list[tuple[int, int]]:
    return [(c, r) for c, top in enumerate(table.fireworks) for r in range(top)]


def test_chances_over_all_hands() -> None:
    games = random_games(SMALL, 40, seed=2)
    record, expected = GameAnalysis(games), by_enumeration(games)
    where = tuple(np.array(sorted(expected)).T)
    chance, scored, hinted = np.array([expected[key] for key in sorted(expected)]).T
    assert len(chance) > 60 and hinted.any() and not hinted.all() and 0 in chance and 1 in chance
    assert np.argwhere(counted_plays(record)).tolist() == np.transpose(where).tolist()
    np.testing.assert_allclose(record.literal_chances.predicted[where], chance, atol=1e-6)
    assert (record.literal_chances.scored[where] == scored).all()
    assert (counted_plays(record, "hinted")[where] == hinted).all()
    assert (counted_plays(record, "unhinted")[where] == 1 - hinted).all()
    figures = gap_figures(record)
    for kind in PLAY_KINDS:
        mine = np.select([kind == "all", kind == "hinted"], [hinted >= 0, hinted == 1], hinted == 0)
        assert figures[f"{kind}_gap"] == pytest.approx((scored - chance)[mine].mean(), abs=1e-6)
        assert figures[f"{kind}_predicted"] == pytest.approx(chance[mine].mean(), abs=1e-6)
        assert figures[f"{kind}_scored"] == scored[mine].mean()
        spread = np.sqrt((chance * (1 - chance))[mine].sum()) / mine.sum()
        assert figures[f"{kind}_gap_floor"] == pytest.approx(1.959964 * spread, rel=1e-5)
        assert figures[f"{kind}_plays"] == mine.sum()
    # random moves tell nothing beyond the hints: the gap is noise
    assert abs(figures["all_gap"]) < 1.5 * figures["all_gap_floor"]


def test_only_counted_seats() -> None:
    games = random_games(SMALL, 20, seed=1)
    one = [
        convention_gap(GameAnalysis(with_counted_seats(games, np.arange(2) == s))) for s in (0, 1)
    ]
    both = convention_gap(GameAnalysis(games))
    assert (both.numerator == pytest.approx(one[0].numerator + one[1].numerator)) and (
        both.denominator == one[0].denominator + one[1].denominator
    ).all()


def test_no_plays_are_undefined() -> None:
    nothing = np.zeros((2, 3), bool)
    record = SimpleNamespace(
        turns=SimpleNamespace(plays=nothing, named=np.zeros((2, 3))),
        literal_chances=LiteralChances(np.zeros((2, 3)), nothing),
    )
    assert gap_floor(record) is None and not convention_gap(record).defined
