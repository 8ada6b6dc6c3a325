"""The fourteen events of a move, against a count in plain Python and recorded totals."""

import numpy as np
import pytest
from support.games import LENIENT, LENIENT_3P, random_games, shared_data

from hanabi_rl.data.files import load_games
from hanabi_rl.env.actions import Move, decode_action
from hanabi_rl.env.game import Rules
from hanabi_rl.env.symmetry import permute_actions
from hanabi_rl.env.table import Table
from hanabi_rl.measure.events import EVENTS, event_counts


class Plain:
    """What each event says, by a game in plain Python that keeps who was told what."""

    def __init__(self, rules: Rules, deck: np.ndarray) -> None:
        self.rules, self.table = rules, Table(rules, deck)
        self.told: dict[int, tuple[set[int], set[int]]] = {}  # place in the deck: colours, ranks
        self.hinted: set[int] = set()
        self.last_hint: tuple[int, list[int]] = (-1, [])

    def card(self, place: int) -> tuple[int, int]:
        return divmod(self.table.deck[place], self.rules.num_ranks)

    def possible(self, place: int) -> list[tuple[int, int]]:
        every_color, every_rank = range(self.rules.num_colors), range(self.rules.num_ranks)
        colors, ranks = self.told.get(place, (set(every_color), set(every_rank)))
        return [(c, r) for c in colors for r in ranks]

    def playable(self, card: tuple[int, int]) -> bool:
        return self.table.fireworks[card[0]] == card[1]

    def last_copy(self, place: int) -> bool:
        color, rank = self.card(place)
        gone = [self.card(place) for place in self.table.discards]
        copies = self.rules.num_cards_of_rank
        if rank < self.table.fireworks[color]:
            return False
        for below in range(self.table.fireworks[color], rank):
            if gone.count((color, below)) == copies[below]:
                return False
        return gone.count((color, rank)) == copies[rank] - 1

    def chop(self, seat: int) -> int:
        return next((x for x in self.table.hands[seat] if x not in self.hinted), -1)

    def events(self, action: int) -> set[str]:
        table, move = self.table, decode_action(self.rules, action)
        found: set[str] = set()
        if move.kind in ("color", "rank"):
            seat = (table.player + move.offset) % self.rules.num_players
            touched = [table.hands[seat][slot] for slot in table.touched(move)]
            new = [x for x in touched if x not in self.hinted]
            found.add(f"hint_{move.kind}")
            found |= {"hint_playable"} if any(self.playable(self.card(x)) for x in new) else set()
            chop = self.chop(seat)
            if chop in touched and self.last_copy(chop) and not self.playable(self.card(chop)):
                found.add("hint_save")
            found |= set() if new else {"hint_again"}
        else:
            found |= self._used(move)
        self._after(move, action)
        return found

    def _used(self, move: Move) -> set[str]:
        table = self.table
        place = table.hands[table.player][move.slot]
        if move.kind == "play":
            seat, touched = self.last_hint
            response = seat == table.player and place in touched
            return {
                name
                for name, holds in {
                    "play_known": all(map(self.playable, self.possible(place))),
                    "play_blind": place not in self.hinted,
                    "play_response": response,
                    "play_newest": response and place == max(touched),
                    "misplay": not self.playable(self.card(place)),
                }.items()
                if holds
            }
        return {
            name
            for name, holds in {
                "discard_chop": place == self.chop(table.player),
                "discard_hinted": place in self.hinted,
                "discard_rich": table.info_tokens >= self.rules.max_info_tokens / 2,
                "discard_last_copy": self.last_copy(place),
            }.items()
            if holds
        }

    def _after(self, move: Move, action: int) -> None:
        table, rules = self.table, self.rules
        self.last_hint = (-1, [])
        if move.kind in ("color", "rank"):
            seat = (table.player + move.offset) % rules.num_players
            touched = [table.hands[seat][slot] for slot in table.touched(move)]
            self.last_hint = (seat, touched)
            self.hinted |= set(touched)
            which = 0 if move.kind == "color" else 1
            for place in table.hands[seat]:
                told = self.told.setdefault(
                    place, (set(range(rules.num_colors)), set(range(rules.num_ranks)))
                )
                if place in touched:
                    told[which].intersection_update({move.value})
                else:
                    told[which].discard(move.value)
        table.apply(action)


@pytest.mark.parametrize("rules", [LENIENT, LENIENT_3P], ids=["2 players", "3 players"])
def test_events_are_those_of_a_plain_count(rules: Rules) -> None:
    games = random_games(rules, 60, seed=3)
    expected = np.zeros((60, rules.num_players, len(EVENTS)), int)
    for game, deck in enumerate(games.decks):
        plain = Plain(rules, deck)
        for turn, action in enumerate(games.moves(game)):
            for name in plain.events(int(action)):
                expected[game, turn % rules.num_players, EVENTS.index(name)] += 1
    found = event_counts(games)
    np.testing.assert_array_equal(found, expected)
    assert (found.sum(axis=(0, 1)) > 0).all()  # random play does all of them


def test_other_names_for_the_colours_change_nothing() -> None:
    games = random_games(LENIENT, 40, seed=4)
    swap = np.array([1, 0], np.uint8)
    color, rank = np.divmod(games.decks, LENIENT.num_ranks)
    renamed = np.asarray(
        permute_actions(LENIENT, games.actions, np.broadcast_to(swap, (*games.actions.shape, 2)))
    )
    other = event_counts(
        type(games)(
            **{
                **vars(games),
                "decks": (swap[color] * LENIENT.num_ranks + rank).astype(np.uint8),
                "actions": renamed,
            }
        )
    )
    np.testing.assert_array_equal(other, event_counts(games))


RECORDED = {  # the specification's own count, in plain Python
    "2p_hgroup_bot_val": (
        *(1017, 1356, 1647, 233, 248, 538, 17),
        *(1530, 1345, 124, 1490, 200, 755, 80),
    ),
    "3p_human_val_41": (418, 394, 445, 64, 58, 186, 135, 214, 167, 33, 351, 81, 117, 3),
    "2p_human_with_ai": (
        *(14893, 18466, 15941, 1141, 5894, 11163, 507),
        *(17450, 12220, 3589, 5515, 11476, 3291, 3179),
    ),
}
PERSON = (7102, 10054, 7816, 768, 3191, 3922, 499, 8493, 6591, 2982, 2992, 4825, 1021, 1386)


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_games_have_the_recorded_totals(name: str) -> None:
    games = load_games(shared_data(f"{name}.safetensors"))
    counts = event_counts(games)
    assert tuple(counts.sum(axis=(0, 1))) == RECORDED[name]
    if name == "2p_human_with_ai":
        assert games.human_seats is not None
        people = counts * games.human_seats[..., None]
        assert tuple(people.sum(axis=(0, 1))) == PERSON
