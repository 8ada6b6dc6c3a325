"""All `hint-history` features against plain Python, with positions as sets and lists."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np
import pytest
from support.structured import BATCH, SMALL, look_at_state

from hanabi_rl.agents.structured import hint_memory
from hanabi_rl.agents.structured.features import true_hand_features
from hanabi_rl.agents.structured.hint_memory import init_memory, next_seat
from hanabi_rl.data.games import pad_moves
from hanabi_rl.games.hanabi.actions import decode_action
from hanabi_rl.games.hanabi.python_game import PythonGame, full_deck
from hanabi_rl.games.hanabi.replay import replay

PLAYERS, HAND, COLORS, RANKS = SMALL.num_players, SMALL.hand_size, SMALL.num_colors, SMALL.num_ranks
READ = ("player", "fireworks", "discards", "hands", "knowledge", "hints", "deck_left")
READ += ("info_tokens", "life_tokens", "last_action", "last_touched")
CARDS = range(SMALL.num_cards)


def bits(word: Any) -> set[int]:
    return {card for card in range(32) if int(word) >> card & 1}


def fixed(x: float) -> float:
    """Round to the ten bits of a quantized feature."""
    return int(min(max(x, 0.0), 1.0) * 1023 + 0.5) / 1023


def ratio(part: float, whole: float) -> float:
    return fixed(part / whole) if whole else 0.0


class Position:
    """A state as seen by its current player, row 0."""

    def __init__(self, state: Any, record: Any, ages: Any) -> None:
        self.record, self.ages = record, ages
        seats = [(int(state.player) + k) % PLAYERS for k in range(PLAYERS)]
        fresh = Counter({card: SMALL.num_cards_of_rank[card % RANKS] for card in CARDS})
        self.played = bits(state.fireworks)
        lost = Counter(card for plane in state.discards for card in bits(plane))
        kept = fresh - lost
        self.left = kept - Counter(self.played)
        held = [[bits(state.hands[seat][slot]) for slot in range(HAND)] for seat in seats]
        self.held = [[bool(card) for card in hand] for hand in held]
        self.hands = [[next(iter(card), None) for card in hand] for hand in held]
        self.knows = [
            [bits(state.knowledge[seat][slot]) & set(self.left) for slot in range(HAND)]
            for seat in seats
        ]
        self.hinted = [
            [int(state.hints[seat][slot]) != 0 for slot in range(HAND)] for seat in seats
        ]
        seen = Counter(card for hand in self.hands[1:] for card in hand if card is not None)
        self.seen = set(seen)
        self.unseen = self.left - seen
        self.repeated = {card for card, number in seen.items() if number > 1}
        self.useless = set(self.played)
        self.playable: set[int] = set()
        for color in range(COLORS):
            reached, first = True, True
            for card in range(color * RANKS, (color + 1) * RANKS):
                reached = reached and card in kept
                if not reached:
                    self.useless.add(card)
                elif card not in self.played and first:
                    self.playable.add(card)
                    first = False
        self.critical = {card for card in kept if kept[card] == 1} - self.useless
        self.mine = [knows & set(self.unseen) for knows in self.knows[0]]
        self.elsewhere = {
            card
            for hand, hinted in zip(self.hands[1:], self.hinted[1:], strict=True)
            for card, was in zip(hand, hinted, strict=True)
            if was and card is not None
        }
        self.deck, self.info, self.lives = (
            int(x) for x in (state.deck_left, state.info_tokens, state.life_tokens)
        )
        self.last = decode_action(SMALL, int(state.last_action))
        self.touched = bits(state.last_touched)
        # the previous player is the last row
        self.target = (PLAYERS - 1 + self.last.offset) % PLAYERS

    def was_touched(self, row: int, slot: int) -> bool:
        hint = self.last.kind in ("color", "rank")
        return hint and row == self.target and slot in self.touched

    def older_unhinted(self, row: int, slot: int) -> float:
        free = [self.held[row][s] and not self.hinted[row][s] for s in range(slot)]
        return fixed(sum(free) / HAND)

    def wanted(self, is_hinted: Callable[[int, int], bool]) -> set[int]:
        """Playable cards, in no visible hand, below a card of a hand with such hints."""
        found: set[int] = set()
        for row in range(1, PLAYERS):
            for slot, card in enumerate(self.hands[row]):
                if card is not None and is_hinted(row, slot):
                    found |= set(range(card - card % RANKS, card))
        return (found & self.playable) - self.seen

    def recently(self, row: int, slot: int) -> bool:
        """True if the last hint is from the observer's last turn or later."""
        hinted, age = self.record.hinted[0, row, slot], self.record.age[0, row, slot]
        return bool(hinted) and age <= PLAYERS - 1


def prob(of: set[int], among: set[int], copies: Counter[int]) -> float:
    return ratio(sum(copies[c] for c in among & of), sum(copies[c] for c in among))


def ranks_of(cards: Iterable[int]) -> set[int]:
    return {card % RANKS for card in cards}


def one_color(cards: set[int]) -> bool:
    return len({card // RANKS for card in cards}) <= 1


def truth(at: Position, card: int | None) -> list[float]:
    """Value features of a card: playable, useless or critical, and its distance in ranks."""
    reach, steps = at.playable, []
    for _ in range(min(RANKS, 4) - 1):
        reach = {c + 1 for c in reach if (c + 1) % RANKS}
        steps.append(card in reach)
    return [card in at.playable, card in at.useless, card in at.critical, *steps]


def table(at: Position) -> list[float]:
    heights = [len(at.played & set(range(c * RANKS, (c + 1) * RANKS))) for c in range(COLORS)]
    to_play = SMALL.num_cards - len(at.useless)
    kind = at.last.kind
    return [
        *[fixed(heights.count(h) / COLORS) for h in range(RANKS + 1)],
        *[at.lives == n for n in range(SMALL.max_life_tokens + 1)],
        *[at.info == n for n in range(SMALL.max_info_tokens + 1)],
        fixed(len(at.played) / SMALL.max_score),
        fixed(to_play / SMALL.max_score),
        fixed(len(at.playable) / COLORS),
        fixed(len(at.critical) / SMALL.max_score),
        fixed(at.deck / SMALL.deck_size),
        at.deck == 0,
        at.deck <= 1,
        fixed(0.2 + (at.deck + PLAYERS - to_play) / SMALL.deck_size),
        kind in ("play", "discard"),
        kind in ("color", "rank"),
        kind == "rank",
        *[kind in ("color", "rank") and at.target == row for row in range(PLAYERS)],
    ]


def own(at: Position) -> list[list[float]]:
    probs = [
        [prob(of, mine, at.unseen) for of in (at.playable, at.useless, at.critical)]
        for mine in at.mine
    ]
    best = [max(row[i] for row in probs) for i in (0, 1)]
    return [
        [
            at.held[0][slot],
            at.hinted[0][slot],
            at.older_unhinted(0, slot),
            *probs[slot],
            probs[slot][0] == best[0],
            probs[slot][1] == best[1],
            fixed(probs[slot][0] / max(1 - probs[slot][1], 51 / 1023)),
            prob(at.elsewhere, at.mine[slot], at.unseen),
            prob(at.repeated, at.mine[slot], at.unseen),
            *[
                prob({c for c in CARDS if c % RANKS == rank}, at.mine[slot], at.unseen)
                for rank in range(RANKS)
            ],
            fixed(sum(at.unseen[c] for c in at.mine[slot]) / SMALL.deck_size),
            one_color(at.mine[slot]),
            len(ranks_of(at.mine[slot])) <= 1,
            len(at.mine[slot]) == 1,
            at.was_touched(0, slot),
            at.was_touched(0, slot) and at.last.kind == "rank",
            *[slot == s for s in range(HAND)],
            *hint_history(at, 0, slot, at.mine[slot], at.unseen),
            prob(at.wanted(at.recently), at.mine[slot], at.unseen),
            prob(at.wanted(lambda row, s: at.hinted[row][s]), at.mine[slot], at.unseen),
        ]
        for slot in range(HAND)
    ]


def others(at: Position, row: int, slot: int) -> list[float]:
    card, knows, held = at.hands[row][slot], at.knows[row][slot], at.held[row][slot]
    playable, useless, critical = (
        prob(of, knows, at.left) for of in (at.playable, at.useless, at.critical)
    )
    maybe_mine = {c for s in range(HAND) if at.hinted[0][s] for c in at.mine[s]}
    return [
        held,
        *[held and card % RANKS == rank for rank in range(RANKS)],  # type: ignore[operator]
        *truth(at, card),
        card in at.repeated,
        card in maybe_mine,
        at.hinted[row][slot],
        at.older_unhinted(row, slot),
        playable,
        fixed(playable / max(1 - useless, 51 / 1023)),
        useless,
        critical,
        held and one_color(knows),
        held and len(ranks_of(knows)) <= 1,
        len(knows) == 1,
        at.was_touched(row, slot),
        at.was_touched(row, slot) and at.last.kind == "rank",
        *hint_history(at, row, slot, knows, at.left),
        card in at.wanted(at.recently),
        card in at.wanted(lambda r, s: at.hinted[r][s]),
    ]


def hint_history(
    at: Position, row: int, slot: int, can_be: set[int], copies: Counter[int]
) -> list[float]:
    """State at the last and first hint, and the card's probabilities given it."""

    def number(cards: set[int]) -> int:
        return sum(copies[c] for c in cards)

    found = [fixed(np.sqrt(at.ages[row, slot]) / 8)]
    for which in (0, 1):
        kept = {name: x[which, row, slot] for name, x in at.record._asdict().items()}
        hinted = bool(kept["hinted"])
        then, was_critical = bits(kept["playable"]), bits(kept["critical"])
        soon = then | {c + 1 for c in then if (c + 1) % RANKS}
        found += [
            kept["by_rank"],
            kept["was_new"],
            kept["was_oldest"],
            kept["was_newest_new"],
            kept["was_newest"],
            *[hinted and kept["giver"] == k for k in range(1, PLAYERS)],
            hinted and kept["age"] <= PLAYERS - 1,
            fixed(kept["touched"] / HAND),
            fixed(kept["new"] / HAND),
            fixed(1 / (1 + kept["age"])) if hinted else 0.0,
            ratio(number(can_be & then), number(can_be)),
            ratio(number(can_be & was_critical), number(can_be)),
            ratio(number(can_be & then & at.playable), number(can_be & then)),
            ratio(number(can_be & then & at.useless), number(can_be & then)),
            ratio(number(can_be & soon & at.playable), number(can_be & soon)),
        ]
    return found


def hint(at: Position, row: int, named: set[int], rank: int | None) -> list[float]:
    """A hint to `row` of all cards `named`."""
    touched = [card in named for card in at.hands[row]]
    free = [at.held[row][s] and not at.hinted[row][s] for s in range(HAND)]
    new = [t and f for t, f in zip(touched, free, strict=True)]
    some = any(touched)
    useless = [n and card in at.useless for n, card in zip(new, at.hands[row], strict=True)]
    facts, more = [], []
    for slot, card in enumerate(at.hands[row]):
        knows, is_touched = at.knows[row][slot], touched[slot]
        after = knows & named if is_touched else set()
        facts += [
            is_touched,
            new[slot],
            *[is_touched and fact for fact in truth(at, card)],
            is_touched and card in at.repeated,
            is_touched and card in at.elsewhere,
            at.older_unhinted(row, slot) if new[slot] else 0.0,
            prob(at.playable, knows, at.left) if is_touched else 0.0,
            prob(at.playable, after, at.left),
            prob(at.useless, after, at.left),
            len(after) == 1 and len(knows) > 1,
        ]
        more += [
            new[slot] and not any(free[:slot]),
            new[slot] and not any(new[slot + 1 :]),
            is_touched and not any(touched[slot + 1 :]),
            prob(at.critical, after, at.left),
        ]
    return [
        some,
        some and rank is not None,
        *[some and rank == r for r in range(RANKS)],
        *[some and row == k for k in range(1, PLAYERS)],
        *[fixed(sum(kind) / HAND) for kind in (touched, new, useless)],
        *facts,
        *more,
    ]


def hints(at: Position) -> list[list[float]]:
    """In action order: colours to each player, then ranks to each."""
    colors = [{c for c in CARDS if c // RANKS == color} for color in range(COLORS)]
    ranks = [{c for c in CARDS if c % RANKS == rank} for rank in range(RANKS)]
    rows = range(1, PLAYERS)
    return [hint(at, row, named, None) for row in rows for named in colors] + [
        hint(at, row, named, rank) for row in rows for rank, named in enumerate(ranks)
    ]


def careful_games(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Decks and moves of whole games: half of the time a play that scores, if possible, and rarely
    one that loses a life."""
    rng, tables, moves = np.random.default_rng(seed), [], []
    for _ in range(BATCH):
        table = PythonGame(SMALL, rng.permutation(full_deck(SMALL)))
        played: list[int] = []
        while not table.over:
            legal = [a for a in range(SMALL.num_actions) if table.illegal_reason(a) is None]
            hand = [divmod(table.deck[order], RANKS) for order in table.hands[table.player]]
            good = [HAND + s for s, (c, rank) in enumerate(hand) if table.fireworks[c] == rank]
            safe = [a for a in legal if not HAND <= a < 2 * HAND]
            wishes = [good, safe, legal][rng.choice(3, p=[0.5, 0.45, 0.05])] or legal
            played.append(int(rng.choice(wishes)))
            table.apply(played[-1])
        tables.append(table)
        moves.append(np.array(played, np.int32))
    return np.array([table.deck for table in tables], np.uint8), pad_moves(SMALL, moves)


@pytest.fixture(scope="module")
def positions_and_features() -> tuple[list[Position], Any]:
    """Every second position of 16 games, and the features of its current player."""
    decks, actions = careful_games()
    states = jax.device_get(replay(SMALL, decks, actions).state)
    kept, positions, found = init_memory(SMALL, "hint-history", (BATCH,)), [], []
    fields = {name: np.asarray(getattr(states, name)) for name in READ}
    for turn in range(actions.shape[1]):
        state = jax.tree.map(lambda x, t=turn: x[t], states)
        after, features = look_at_state(SMALL, "hint-history", kept, state)
        kept, bits_kept = next_seat(after), hint_memory.unpack(after)
        records, ages = jax.device_get(
            (hint_memory.records(bits_kept), hint_memory.ages(bits_kept))
        )
        playing = np.flatnonzero(actions[:, turn] != SMALL.noop) if turn % 2 else []
        for n in playing:
            one = type("One", (), {name: value[turn, n] for name, value in fields.items()})
            record = jax.tree.map(lambda x, n=n: x[..., n], records)
            positions.append(Position(one, record, ages[..., n]))
            found.append(jax.tree.map(lambda x, n=n: np.asarray(x)[n], features))
    return positions, jax.tree.map(lambda *x: np.stack(x), *found)


def assert_equal(found: Any, expected: Any, constant: list[int]) -> None:
    """Compare every column; all but `constant` of them vary."""
    wanted = np.asarray(expected, np.float64)
    assert found.shape == wanted.shape
    wrong = np.argwhere(np.abs(found - wanted) > 1.1 / 1023)
    assert not len(wrong), [(w.tolist(), found[tuple(w)], wanted[tuple(w)]) for w in wrong[:5]]
    steady = np.flatnonzero(np.ptp(wanted.reshape(-1, wanted.shape[-1]), axis=0) == 0)
    assert steady.tolist() == constant


def test_true_hand_features_of_critic() -> None:
    """In the middle of 16 games."""
    decks, actions = careful_games()
    played = jax.device_get(replay(SMALL, decks, actions).state)
    states = jax.tree.map(lambda x: x[13], played)
    features = np.asarray(jax.jit(true_hand_features, static_argnums=0)(SMALL, states))
    playing = np.flatnonzero(actions[:, 13] != SMALL.noop)
    assert len(playing) > 8
    fields = {name: np.asarray(getattr(states, name)) for name in READ}
    expected = []
    for n in playing:
        at = Position(type("One", (), {k: x[n] for k, x in fields.items()}), None, None)
        rows = []
        for card in at.hands[0]:
            ranks = [card is not None and card % RANKS == rank for rank in range(RANKS)]
            rows.append([card is not None, *truth(at, card)[:3], *ranks])
        expected.append(rows)
    np.testing.assert_array_equal(features[playing], np.array(expected, np.float32))
    assert (np.ptp(features[playing].reshape(-1, 4 + RANKS), axis=0)[1:] == 1).all()


def test_table_features(positions_and_features: Any) -> None:
    positions, found = positions_and_features
    assert_equal(found.table, [table(at) for at in positions], constant=[5, 27])


def test_own_card_features(positions_and_features: Any) -> None:
    positions, found = positions_and_features
    assert_equal(found.own, [own(at) for at in positions], constant=[0])


def test_other_card_features(positions_and_features: Any) -> None:
    positions, found = positions_and_features
    rows, slots = range(1, PLAYERS), range(HAND)
    expected = [[[others(at, r, s) for s in slots] for r in rows] for at in positions]
    assert_equal(found.others, expected, constant=[57, 58])


def test_hint_features(positions_and_features: Any) -> None:
    positions, found = positions_and_features
    assert_equal(found.hints, [hints(at) for at in positions], constant=[21])
