"""Convention annotations, against positions annotated by hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.games import TINY, one_game, random_games
from support.tables import text_of

from hanabi_rl.evaluation.measure.annotate import annotate
from hanabi_rl.evaluation.measure.conventions import convention_figures, read_conventions
from hanabi_rl.evaluation.measure.turn_masks import with_counted_seats
from hanabi_rl.evaluation.reporting.measures import conventions_parts
from hanabi_rl.games.hanabi.actions import Move, encode_action
from hanabi_rl.games.hanabi.python_game import (
    COLOR_NAMES,
    COLORS,
    PLAYER_NAMES,
    PythonGame,
    full_deck,
)
from hanabi_rl.games.hanabi.rules import Rules

HIDDEN = "R1 R1 G4 B4 W4"  # the current player's own hand, which annotation ignores


def notes_of(hands: str, *moves: str) -> list[str]:
    """Annotations of the moves of `played`, as text."""
    deck, actions = played(hands, *moves)
    rules = Rules(num_players=hands.count("|") + 1)
    return [str(note) for note in annotate(rules, deck, [*actions, rules.noop, 0])]


def played(hands: str, *moves: str) -> tuple[list[int], list[int]]:
    """Deck and actions of a game that begins with `hands` ("R1 ... | ...", oldest card first) and
    `moves` ("Bob red", "play 3", "discard 1"; slots from 1, the oldest)."""
    rules = Rules(num_players=hands.count("|") + 1)
    deck = [card_id(rules, card) for hand in hands.split("|") for card in hand.split()]
    deck += sorted((Counter(full_deck(rules)) - Counter(deck)).elements(), reverse=True)
    table, actions = PythonGame(rules, deck), []
    for move in moves:
        actions.append(action_of(table, move))
        table.apply(actions[-1])
    return deck, actions


def card_id(rules: Rules, card: str) -> int:
    return COLORS.index(card[0]) * rules.num_ranks + int(card[1]) - 1


def action_of(table: PythonGame, move: str) -> int:
    what, value = move.split()
    if what in ("play", "discard"):
        return encode_action(table.rules, Move(what, slot=int(value) - 1))
    offset = (PLAYER_NAMES.index(what) - table.player) % table.rules.num_players
    if value.isdigit():
        return encode_action(table.rules, Move("rank", offset=offset, value=int(value) - 1))
    return encode_action(table.rules, Move("color", offset=offset, value=COLOR_NAMES.index(value)))


TWO = {  # Bob's hand, Alice's hint, its annotation
    "a 1 by rank fits": ("G3 B1 Y4 W3 R4", "Bob 1", "play hint"),
    "the chop is the focus, and fits": ("B1 G3 Y4 W3 B4", "Bob blue", "play hint"),
    "off the chop it is the newest new card": ("G3 B4 Y4 W3 B1", "Bob blue", "play hint"),
    "the focus does not fit": (
        "G3 B1 Y4 W3 B4",
        "Bob blue",
        "stall hint, but misleads",  # Bob takes B4 for B1 and will play it
    ),
    "a 5 on the chop": ("G5 B3 Y4 W3 R4", "Bob 5", "save hint"),
    "a 5 off the chop, nobody having discarded": ("G3 B5 Y4 W3 R4", "Bob 5", "stall hint"),
    "a 5 is not saved by colour": ("G5 B3 Y4 W3 R4", "Bob green", "stall hint, but misleads"),
    "a 2 on the chop": ("G2 B3 Y4 W3 R4", "Bob 2", "save hint"),
    "a 2 is not saved by colour": ("G2 B3 Y4 W3 R4", "Bob green", "stall hint, but misleads"),
    "a 3 on the chop": ("G3 B4 Y4 W4 R4", "Bob 3", "stall hint"),
    "two copies at once": ("G1 B3 Y4 W3 G1", "Bob green", "play hint, but good touch"),
}


@pytest.mark.parametrize(("bobs", "hint", "expected"), TWO.values(), ids=TWO)
def test_first_hints(bobs: str, hint: str, expected: str) -> None:
    """With all tokens available Alice cannot discard: other hints are stall hints."""
    assert notes_of(f"{HIDDEN} | {bobs}", hint) == [expected]


def test_hint_is_judged_from_givers_view() -> None:
    """The result does not depend on Alice's own, unknown cards."""
    for own in (HIDDEN, "B1 B1 Y5 W5 R5", "G3 G3 Y2 Y2 B2"):
        assert notes_of(f"{own} | G4 B1 Y4 W3 R4", "Bob blue") == ["play hint"]
        assert notes_of(f"{own} | G4 B2 Y4 W3 R4", "Bob blue") == ["stall hint, but misleads"]


def test_single_rank_chop_hint_saves_critical_card() -> None:
    """With one rank, no 2 can be saved."""
    rules = Rules(num_colors=2, num_ranks=1, hand_size=2, num_cards_of_rank=(2,))
    table = PythonGame(rules, [1, 1, 0, 0])
    table.apply(action_of(table, "Bob 1"))
    assert [str(note) for note in annotate(rules, table.deck, table.actions)] == ["play hint"]


def test_plays() -> None:
    hands = "R3 R2 G4 B4 W4 | G1 B1 Y4 W3 R4"
    first = ("Bob 1", "play 1")  # the oldest 1; all 1s are playable
    assert notes_of(hands, *first) == ["play hint", "known play"]
    assert notes_of(hands, *first, "play 5")[2] == "other play, but blind play"
    fours = ("Bob 4", "Alice 4", "Bob 3")
    assert notes_of(hands, *fours, "play 3")[3] == "other play, but unsupported play"
    assert notes_of("R3 R2 G4 B4 W4 | G3 B1 Y4 W3 B3", "Bob blue", "play 5")[1] == "hinted play"


def test_discards() -> None:
    hands = "R3 R2 G4 B4 W4 | G3 B3 Y4 W3 R4"
    before = ("Bob 4", "Alice 4")
    assert notes_of(hands, *before, "discard 1")[2] == "chop"
    assert notes_of(hands, *before, "discard 2")[2] == "other discard, but not from chop"
    assert notes_of(hands, *before, "discard 3")[2] == "other discard, but discards hinted card"


def test_discard_with_playable_card_violates() -> None:
    hands = "R1 R2 G4 B4 W4 | G3 B3 Y4 W3 R4"
    assert notes_of(hands, "Bob 4", "Alice 1", "discard 2")[2] == "chop, but missed play"
    assert notes_of(hands, "Bob 4", "Alice 1", "Bob 3")[2] == ("other hint, but focus, missed play")


def test_second_copy_becomes_useless() -> None:
    hands = "R3 R2 G4 B4 W4 | B1 B1 Y4 W3 R4"
    found = notes_of(hands, "Bob blue", "play 1", "Bob 1", "discard 1")
    assert found == ["play hint, but good touch", "hinted play", "fix hint", "known useless"]


SAVES = {"G5": True, "G2": True, "G3": False}


@pytest.mark.parametrize(("chop", "lost"), SAVES.items(), ids=SAVES)
def test_discard_reveals_missed_save(chop: str, lost: bool) -> None:
    hands = f"R3 R2 G4 B4 W4 | {chop} B3 Y4 W3 R4"
    third, last = notes_of(hands, "Bob 4", "Alice 4", "Bob red", "discard 1")[2:]
    assert third == "stall hint" + ", but missed save" * lost and last == "chop"


def test_either_hint_saves_critical_card() -> None:
    hands = "G3 R2 G4 B4 W4 | G3 B4 Y4 W3 R4"
    start = ("Bob 4", "Alice 4", "discard 1", "Alice 2")  # the other green 3 is discarded
    for hint in ("Bob green", "Bob 3"):
        assert notes_of(hands, *start, hint)[4] == "save hint"
    other = "Y3 R2 G4 B4 W4 | G3 B4 Y4 W3 R4"  # two green 3s are left
    assert notes_of(other, *start, "Bob green")[4] == "other hint, but focus, misleads"


def test_chop_discard_ends_early_game() -> None:
    hands = "R3 R2 G4 B4 W4 | G3 B5 Y4 W3 R4"
    before = ("Bob 4", "Alice 4")
    assert notes_of(hands, *before, "Bob 5")[2] == "stall hint"
    late = notes_of(hands, *before, "discard 1", "Alice 2", "Bob 5")
    assert late[2] == "chop" and late[4] == "other hint, but focus"


THREE = "R3 R3 G4 B4 W4 | Y3 G3 B3 W3 {bob} | {cathy}"


def test_finesse() -> None:
    """Cathy's blue 2 is hinted; Bob, before Cathy, plays his newest card as blue 1. Cathy waits."""
    hands = THREE.format(bob="B1", cathy="B2 Y4 G4 W4 R4")
    assert notes_of(hands, "Cathy blue", "play 5", "play 1") == [
        "finesse",
        "finesse play",
        "hinted play",
    ]
    assert (
        notes_of(hands, "Cathy blue", "Cathy 4", "play 1")[2] == "other play, but unsupported play"
    )


def test_finesse_of_player_after_receiver() -> None:
    """Bob, the receiver, acts before Cathy, sees her blue 1 and waits."""
    hands = "R3 R3 G4 B4 W4 | B2 G3 Y3 W3 R4 | Y4 G4 W4 R4 B1"
    found = notes_of(hands, "Bob blue", "Alice 4", "play 5", "Bob 3", "play 1")
    assert (found[0], found[2], found[4]) == ("finesse", "finesse play", "hinted play")


def test_finesse_requires_the_missing_card() -> None:
    """The newest card is another one, which is unplayable."""
    hands = THREE.format(bob="Y4", cathy="B2 Y4 G4 W4 R4")
    assert notes_of(hands, "Cathy blue") == ["stall hint, but misleads"]


def test_bluff() -> None:
    """The next player's newest card is playable, but is not the blue 1."""
    hands = THREE.format(bob="R1", cathy="B2 Y4 G4 W4 R4")
    assert notes_of(hands, "Cathy blue", "play 5", "play 1") == [
        "bluff",
        "finesse play",
        "other play, but unsupported play",  # Cathy saw that it was no blue 1
    ]
    second = "R3 R3 G4 B4 W4 | B2 Y4 G4 W4 R4 | Y3 G3 B3 W3 R1"  # Cathy is not the next player
    assert notes_of(second, "Bob blue") == ["stall hint, but misleads"]


def test_prompt() -> None:
    """After blue 1, a hint on Cathy's blue 3 prompts Bob's 2, which was saved by rank."""
    hands = "B1 R3 G4 B4 W4 | B2 G3 Y3 W3 R4 | B3 Y4 G4 W4 R4"
    start = ("Bob 2", "Alice blue", "Alice red", "play 1", "Alice 4", "Alice 3")
    found = notes_of(hands, *start, "Cathy blue", "play 1", "play 1")
    assert (found[0], found[3]) == ("save hint", "hinted play")
    assert found[6:] == ["prompt", "hinted play", "hinted play"]


def test_finesse_skips_receivers_own_card() -> None:
    """Bob, whose 2 is hinted, sees Cathy's blue 1 but not his own."""
    hands = "R3 R3 G4 B4 W4 | Y3 B2 G3 W3 B1 | Y4 G4 W4 R4 B1"
    found = notes_of(hands, "Bob 2", "Alice 4", "play 5")
    assert (found[0], found[2]) == ("finesse", "finesse play")


def test_visible_2_needs_no_save() -> None:
    hands = "R3 R3 G4 B4 W4 | G2 B3 Y4 W3 R4 | Y3 G3 B3 W3 {}"
    assert notes_of(hands.format("R4"), "Bob 2") == ["save hint"]
    assert notes_of(hands.format("G2"), "Bob 2") == ["stall hint"]


def test_chop_2_hint_allows_save_or_play() -> None:
    """After red 1, red 2 is playable; the green 2 must not be taken for it."""
    hands = "R1 R3 G4 B4 W4 | G2 B3 Y4 W3 R4"
    found = notes_of(hands, "Bob 4", "Alice red", "play 1", "Alice 3", "Bob 2", "play 1")
    assert found[2:] == [
        "hinted play",
        "stall hint",
        "save hint",
        "other play, but unsupported play",
    ]


ONES = {  # after red 1: Bob's hand, the slot of the focus, True if the hint misleads
    "the older fits": ("B3 B1 Y4 W3 R1", 2, False),
    "the older is useless": ("B3 R1 Y4 W3 B1", 2, True),
    "three, the oldest useless": ("B3 R1 Y1 W3 B1", 2, True),
    "the chop fits": ("B1 R1 Y4 W3 G3", 1, False),
    "the chop is useless, though a younger one fits": ("R1 B1 Y4 W3 G3", 1, True),
}


@pytest.mark.parametrize(("bobs", "slot", "misleads"), ONES.values(), ids=ONES)
def test_oldest_starting_1_is_focus(bobs: str, slot: int, misleads: bool) -> None:
    """Each hint touches a useless red 1; only the focus, which Bob will play first, misleads."""
    moves = ("Bob 3", "Alice red", "play 1", "Alice 4", "Bob 1")
    note = annotate(Rules(), *played(f"R1 R3 G4 B4 W4 | {bobs}", *moves))[-1]
    assert note.kind == "play hint" and note.focus == 5 + slot - 1
    assert note.violations == ("good touch", *(["misleads"] if misleads else []))


FRESH = {  # Bob's draw after three of his cards -> focus, True if the hint misleads
    "a fresh 1 goes before the older ones": ("G1", "G1", False),
    "a fresh 1 that is useless": ("R1", "R1", True),
}


@pytest.mark.parametrize(("drawn", "focus", "misleads"), FRESH.values(), ids=FRESH)
def test_drawn_1_precedes_starting_1s(drawn: str, focus: str, misleads: bool) -> None:
    hands = f"R1 R3 G4 B4 W4 | B3 R3 Y4 Y1 W3 W2 {drawn}"
    moves = ("Bob 4", "Alice red", "play 1", "discard 1", "Bob 1")
    deck, actions = played(hands, *moves)
    note = annotate(Rules(), deck, actions)[-1]
    assert note.focus == 11 and deck[11] == card_id(Rules(), focus)
    assert ("misleads" in note.violations) == misleads


def test_newest_drawn_1_is_focus() -> None:
    hands = "R1 R3 G4 B4 W4 | B3 R3 Y4 G4 W3 W2 R1 G1"
    start = ("Bob blue", "Alice red", "play 1", "discard 1", "Bob white", "discard 1", "Bob 1")
    note = annotate(Rules(), *played(hands, *start))[-1]
    assert (note.focus, note.violations) == (12, ("good touch",))


def test_newest_rehinted_1_is_focus() -> None:
    """A second hint on 1s identifies them instead of ordering plays."""
    hands = "R3 R4 G4 B4 W4 | B3 R1 Y4 W3 Y1"
    deck, actions = played(hands, "Bob red", "Alice 4", "Bob yellow", "Alice 3", "Bob 1")
    assert annotate(Rules(), deck, actions)[-1].focus == 9


def test_player_with_play_needs_no_save() -> None:
    hands = "R3 R2 G4 B4 W4 | G5 B3 Y4 W3 B1"
    found = notes_of(hands, "Bob blue", "Alice 4", "Bob 4", "discard 1")
    assert found[2:] == ["other hint, but focus", "chop, but missed play"]


def test_copy_of_givers_card_violates_good_touch() -> None:
    hands = "R1 W3 G4 B4 W4 | Y3 R1 Y4 W3 B4"
    assert notes_of(hands, "Bob 4", "Alice red", "Bob 1")[2] == "play hint, but good touch"
    assert notes_of(hands, "Bob 4", "Alice white", "Bob 1")[2] == "play hint"


def test_inference_assumes_useful_single_hints() -> None:
    hands = "R3 R2 G4 B4 W4 | B3 G1 Y4 W3 B1"
    assert notes_of(hands, "Bob 1", "play 5", "Bob 4", "play 2")[3] == "hinted play"
    # Bob sees Alice's red 1, and learns that his own is a copy
    twice = "R1 W3 G4 B4 W4 | Y3 R1 Y4 W3 B4"
    assert notes_of(twice, "Bob red", "Alice red", "Bob 1", "discard 2") == [
        "play hint",
        "play hint, but good touch",
        "fix hint",
        "known useless",
    ]


def test_early_game_does_not_return() -> None:
    hands = "R3 R2 G4 B4 W4 | G3 G4 Y4 W3 B5"
    found = notes_of(hands, "Bob 4", "Alice 4", "discard 1", "play 1", "Bob 5")
    assert found[2:] == ["chop", "other play, but blind play", "other hint, but focus"]


def test_blind_plays_are_allowed_at_end() -> None:
    """With an empty deck; on random games."""
    tried = 0
    for seed in range(8):
        games = random_games(TINY, 1, seed)
        table = PythonGame(TINY, games.decks[0])
        for note, action in zip(
            annotate(TINY, games.decks[0], games.moves(0)), games.moves(0), strict=True
        ):
            if table.drawn == TINY.deck_size and note.kind == "other play":
                assert note.violations in ((), ("missed save",))
                tried += 1
            table.apply(action)
    assert tried


ANNOTATED = (Path(__file__).parent / "annotated.txt").read_text().split("\ngame: ")[1:]


@pytest.mark.parametrize("game", ANNOTATED, ids=lambda game: game.partition(",")[0])
def test_hand_annotated_games(game: str) -> None:
    """210 moves in total."""
    lines = game.splitlines()[1:]
    cards = " ".join(line.removeprefix("deck: ") for line in lines[:2]).split()
    moves = [line[:13].strip() for line in lines[2:] if line]
    expected = [line[13:] for line in lines[2:] if line]
    rules = Rules(num_players=3 if "Cathy" in game else 2)
    table = PythonGame(rules, [card_id(rules, card) for card in cards])
    for move in moves:
        table.apply(action_of(table, move))
    assert [str(note) for note in annotate(rules, table.deck, table.actions)] == expected
    assert table.over


def test_fractions_use_counted_seats() -> None:
    """By hand: a play hint that is followed, then a blind play (Alice) and a chop discard (Bob)."""
    hands = "R3 R2 G4 B4 W4 | G3 B1 Y4 W3 R4"
    deck, actions = played(hands, "Bob blue", "play 2", "play 1", "discard 1")
    games = one_game(deck, actions)
    of_all = convention_figures(read_conventions(games))
    assert (of_all["games"], of_all["moves"], of_all["adherence"]) == (1, 4, 0.75)
    assert of_all["kind/chop"] == of_all["break/blind play"] == 0.25
    of_bob = convention_figures(
        read_conventions(with_counted_seats(games, np.array([False, True])))
    )
    assert (of_bob["moves"], of_bob["adherence"], of_bob["kind/chop"]) == (2, 1.0, 0.5)
    assert "75.0%" in text_of(conventions_parts, {"all": of_all, "Bob": of_bob})
