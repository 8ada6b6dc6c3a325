"""G1, G2 and G3, against `PythonGame` card by card, and on games by hand."""

from collections import Counter

import numpy as np
import pytest
from support.games import as_games, random_games, teacher_games

from hanabi_rl.data.games import Games
from hanabi_rl.evaluation.measure.dominance import (
    DOMINANCE_KINDS,
    KNOWLEDGE_LEVELS,
    dominated_moves,
    frequency,
    pooled_frequency,
)
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.evaluation.measure.turn_masks import with_counted_seats
from hanabi_rl.games.hanabi.actions import Move, decode_action, encode_action
from hanabi_rl.games.hanabi.python_game import PythonGame, full_deck
from hanabi_rl.games.hanabi.rules import Rules

SMALL = Rules(num_colors=2, num_ranks=3, hand_size=2, max_info_tokens=4, max_life_tokens=3)


def identities(table: PythonGame, order: int) -> dict[str, set[int]]:
    """Possible identities of the current player's card, by knowledge level."""
    rules, known = table.rules, table.knowledge[order]
    hints = {c * rules.num_ranks + r for c in known.colors for r in known.ranks}
    every = set(range(rules.num_cards))
    hinted = known.hinted_color is not None and known.hinted_rank is not None
    gone = Counter(table.deck[other] for other in table.discards)
    gone.update(
        c * rules.num_ranks + r for c, top in enumerate(table.fireworks) for r in range(top)
    )
    seen = gone + Counter(
        table.deck[other]
        for seat, hand in enumerate(table.hands)
        for other in hand
        if seat != table.player
    )

    def left(counted: Counter) -> set[int]:
        copies = rules.num_cards_of_rank
        return {card for card in hints if counted[card] < copies[card % rules.num_ranks]}

    return {
        "named": hints if hinted else every,
        "hints": hints,
        "public": left(gone),
        "view": left(seen),
    }


def by_hand(games: Games) -> dict[tuple[str, str], list[dict[int, list[bool]]]]:
    """For each kind and level, for each game: seat -> True for each of its turns with such a
    move."""
    found = {(kind, level): [] for kind in DOMINANCE_KINDS for level in KNOWLEDGE_LEVELS}
    for game in range(len(games)):
        turns = {key: {} for key in found}
        table = PythonGame(games.rules, games.decks[game])
        for action in games.moves(game):
            move, seat = decode_action(games.rules, action), table.player
            takes = move.kind in ("play", "discard")
            sets = identities(table, table.hands[seat][move.slot]) if takes else {}
            for kind, level in found:
                fits = [
                    table.fireworks[card // games.rules.num_ranks] == card % games.rules.num_ranks
                    for card in sets.get(level, ())
                ]
                known = {"G1": all(fits), "G2": not any(fits), "G3": all(fits)}[kind]
                right_kind = move.kind == ("discard" if kind == "G1" else "play")
                turns[kind, level].setdefault(seat, []).append(takes and right_kind and known)
            table.apply(action)
        for key in found:
            found[key].append(turns[key])
    return found


@pytest.mark.parametrize("rules", [SMALL, Rules(num_players=3)], ids=["small", "3 players"])
@pytest.mark.parametrize("seats", ["all", "some"])
def test_frequencies_match_definition(rules, seats):
    games = teacher_games(rules, 20) if rules is SMALL else random_games(rules, 10)
    counted = np.ones((len(games), rules.num_players), bool)
    if seats == "some":
        counted = np.random.default_rng(1).random(counted.shape) < 0.5
        games = with_counted_seats(games, counted)
    record, found_kinds = GameAnalysis(games), set()
    for (kind, level), expected in by_hand(games).items():
        fractions, done = [], []
        for game, turns in enumerate(expected):
            own = [made for seat, made in turns.items() if counted[game, seat]]
            fractions += [np.mean(made) for made in own]
            done += [one for made in own for one in made]
        ratio = frequency(record, kind, level)
        assert ratio.mean == pytest.approx(np.mean(fractions), abs=1e-12), (kind, level)
        assert ratio.denominator.sum() == len(fractions)
        assert dominated_moves(record, kind, level).sum() == sum(done)
        assert pooled_frequency(record, kind, level).mean == pytest.approx(np.mean(done))
        found_kinds |= {kind} if any(done) else set()
    assert found_kinds, "no such move in any game: nothing was compared"


def test_seats_add_up():
    games = random_games(SMALL, 30)
    parts = [GameAnalysis(with_counted_seats(games, np.arange(2) == seat)) for seat in range(2)]
    for kind in DOMINANCE_KINDS:
        whole, halves = (
            frequency(GameAnalysis(games), kind),
            [frequency(part, kind) for part in parts],
        )
        assert np.allclose(sum(half.numerator for half in halves), whole.numerator)
        assert np.array_equal(sum(half.denominator for half in halves), whole.denominator)


def test_knowledge_levels_are_nested():
    record = GameAnalysis(random_games(SMALL, 60))
    for kind in DOMINANCE_KINDS:
        named, hints, public, view = (
            dominated_moves(record, kind, level) for level in KNOWLEDGE_LEVELS
        )
        assert not (named & ~hints).any() and not (hints & ~public).any()
        assert not (public & ~view).any()


R1, R2, R3, B1, B2, B3 = range(6)  # three copies of rank 1, two of rank 2, one of rank 3
HINT_1 = Move("rank", offset=1, value=0)


def known_at(top: list[int], played: list[Move], kind: str) -> list[str]:
    """Knowledge levels at which the last move is of that kind; the deck starts with `top`."""
    rest = full_deck(SMALL)
    for card in top:
        rest.remove(card)
    actions = np.array([encode_action(SMALL, move) for move in played], np.int32)
    table = PythonGame(SMALL, top + rest)
    for action in actions:
        table.apply(action)  # every move is legal
    games = as_games(SMALL, [table], [actions])
    record, last = GameAnalysis(games), len(played) - 1
    found = [level for level in KNOWLEDGE_LEVELS if dominated_moves(record, kind, level)[0, last]]
    fraction = frequency(record, kind, "hints").numerator.sum()
    assert fraction == ("hints" in found) / (last // 2 + 1)
    return found


def test_opening_1_is_known_by_rank():
    top = [R2, B2, R1, R3]  # Alice's hand, then Bob's
    assert known_at(top, [HINT_1, Move("play", slot=0)], "G3") == ["hints", "public", "view"]
    assert known_at(top, [HINT_1, Move("discard", slot=0)], "G1") == ["hints", "public", "view"]
    assert known_at(top, [HINT_1, Move("play", slot=1)], "G2") == ["hints", "public", "view"]
    named = [HINT_1, HINT_1, Move("color", offset=1, value=0), Move("play", slot=0)]
    assert known_at([R1, B2, R1, R3], named, "G3") == list(KNOWLEDGE_LEVELS)


def test_later_1_is_not_known_by_rank():
    hinted = [Move("play", slot=0), Move("color", offset=1, value=1), HINT_1]
    # Bob sees B2 and one drawn card; the third R1 can still be in his hand
    assert known_at([R1, B2, B1, R3, B3], [*hinted, Move("play", slot=0)], "G3") == []


def test_public_excludes_discards_and_view_hands():
    """Bob's B1 is hinted as a 1, and Alice has played one of three R1. It is known once the other
    R1 are discarded (public), or while Bob sees them in Alice's hand (view)."""
    top, hinted, discards = (
        [R1, R1, B1, R3, R1],
        Move("rank", offset=1, value=0),
        Move("discard", slot=0),
    )
    plays = Move("play", slot=0)
    held = [plays, hinted, HINT_1]
    assert known_at(top, [*held, plays], "G3") == ["view"]
    public = [*held, hinted, discards, hinted, discards]
    assert known_at(top, [*public, plays], "G3") == ["public", "view"]
    other = Move("rank", offset=1, value=1)
    assert known_at([R1, R2, B1, R3, B3], [plays, other, HINT_1, plays], "G3") == []


def test_game_without_turn_is_skipped():
    games = random_games(SMALL, 3)
    actions = games.actions.copy()
    actions[0, 1:] = SMALL.noop  # Bob has no turn
    short = Games(**{**games.__dict__, "actions": actions, "ends": None})
    ratio = frequency(GameAnalysis(with_counted_seats(short, np.array([False, True]))), "G3")
    assert ratio.denominator.tolist() == [0, 1, 1]
