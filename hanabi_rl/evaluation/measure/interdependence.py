"""Who helps whom: the interdependences of Biswas et al. (arXiv 2502.06976v3, "Metrics"), in Hanabi.

A *trigger* is a hint, which could become what another's move rests on. It is accepted in one of
three senses: a card it touched is used later (A0, the paper's), on the receiver's very next turn
(A1), or the hint gives a constructive link (A2): one of its cards scores, and it told something
about that card. `links.py` says what the links are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hanabi_rl.evaluation.measure.links import (
    OUTCOMES,
    HintedCards,
    LinkInputs,
    LinkPairs,
    firework_links,
    read_games,
    read_touches,
    token_links,
)
from hanabi_rl.evaluation.measure.ratio import Ratio

if TYPE_CHECKING:
    from hanabi_rl.data.games import Games
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis


class Links(NamedTuple):
    """What the links of N games come to, int64. [n, i, j] counts what seat i gave to seat j, of P
    seats; [n, i] what one seat did."""

    hints: np.ndarray  # [N, P, P]
    accepted: np.ndarray  # [N, P, P], of the hints: A0
    prompt: np.ndarray  # [N, P, P], A1
    helpful: np.ndarray  # [N, P, P], A2
    outcomes: np.ndarray  # [N, P, P, 6], cards that hints touched, by OUTCOMES; the last: no link
    hinted_points: np.ndarray  # [N, P, P], cards of j that scored, i gave the first hint on them
    firework: np.ndarray  # [N, P, P], firework links
    token: np.ndarray  # [N, P, P], token links
    turns: np.ndarray  # [N, P]
    token_turns: np.ndarray  # [N, P], with a token to spend
    linked_turns: np.ndarray  # [N, P], that give or receive in any link
    points: np.ndarray  # [N, P], cards that scored
    steps: np.ndarray  # [N, P], of those all but the first of their colour
    games: np.ndarray  # [N], 1 where there is a pair of seats to count

    def outcome(self, name: str) -> np.ndarray:
        """[N, P, P]: cards that hints touched and that came to this one of `OUTCOMES`."""
        return self.outcomes[..., OUTCOMES.index(name)]

    def between(self, givers: np.ndarray, receivers: np.ndarray) -> Links:
        """What the seats `givers` gave to the seats `receivers`, bool[N, P] each; turns are those
        of the givers, points those of the receivers."""
        pair = givers[:, :, None] & receivers[:, None, :] & ~np.eye(givers.shape[1], dtype=bool)
        masks = dict.fromkeys(("turns", "token_turns", "linked_turns"), givers)
        masks |= {"points": receivers, "steps": receivers, "outcomes": pair[..., None]}
        masks["games"] = pair.any(axis=(1, 2))
        return Links(
            **{name: field * masks.get(name, pair) for name, field in self._asdict().items()}
        )


def read_links(games: Games) -> Links:
    """The links of recorded games, counted; every seat counts, people or not."""
    read = read_games(games)
    rules, playing = games.rules, games.actions != games.rules.noop
    touches, firework, token = read_touches(read), firework_links(read), token_links(read)
    steps = read.scored & (read.card % rules.num_ranks > 0)
    linked = np.zeros(playing.shape, bool)
    for link in (touches.links(), firework, token):
        linked |= _turn_mask(playing.shape, link.game, link.giver)
        linked |= _turn_mask(playing.shape, link.game, link.receiver)
    return Links(
        **_count_hints(read, touches),
        outcomes=np.stack([_outcome_pairs(read, touches, name) for name in OUTCOMES], axis=-1),
        hinted_points=_by_pair(read, _first_hints(read, touches)),
        firework=_by_pair(read, firework),
        token=_by_pair(read, token),
        turns=_by_seat(read, playing),
        token_turns=_by_seat(read, playing & (read.tokens > 0)),
        linked_turns=_by_seat(read, linked),
        points=_by_seat(read, read.scored),
        steps=_by_seat(read, steps),
        games=np.ones(len(games), np.int64),
    )


def _count_hints(read: LinkInputs, touches: HintedCards) -> dict[str, np.ndarray]:
    """The hints of each pair of seats and those accepted in each sense, int64[N, P, P]."""
    every, constructive = touches.links(), touches.links("constructive")
    soon = every.receiver - every.giver < read.rules.num_players
    shape = read.order.shape
    masks = {
        "hints": read.moves.is_hint,
        "accepted": _turn_mask(shape, every.game, every.giver),
        "prompt": _turn_mask(shape, every.game[soon], every.giver[soon]),
        "helpful": _turn_mask(shape, constructive.game, constructive.giver),
    }
    counts = {}
    for name, which in masks.items():
        game, turn = np.nonzero(which)
        target = turn + read.moves.offset[game, turn].astype(np.int64)
        counts[name] = _by_pair(read, LinkPairs(game, turn, target))
    return counts


def _turn_mask(shape: tuple[int, ...], game: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """bool[N, T]: the turns named by `game` and `turn` int64[L]."""
    marked = np.zeros(shape, bool)
    marked[game, turn] = True
    return marked


def _first_hints(read: LinkInputs, touches: HintedCards) -> LinkPairs:
    """The first hint on every card that scored, with the turn on which it did."""
    first = touches.fresh & (touches.used >= 0)
    game, giver, receiver = (field[first] for field in (touches.game, touches.turn, touches.used))
    scored = read.scored[game, receiver]
    return LinkPairs(game[scored], giver[scored], receiver[scored])


def _outcome_pairs(read: LinkInputs, touches: HintedCards, name: str) -> np.ndarray:
    """int64[N, P, P]: the cards that came to `name`, by who hinted and who held them."""
    of_it = touches.outcome == OUTCOMES.index(name)
    game, turn = touches.game[of_it], touches.turn[of_it]
    holder = turn + read.moves.offset[game, turn].astype(np.int64)
    return _by_pair(read, LinkPairs(game, turn, holder))


def _by_pair(read: LinkInputs, pairs: LinkPairs) -> np.ndarray:
    """int64[N, P, P]: how many of the pairs of turns are of each ordered pair of seats."""
    num_games, players = len(read.order), read.rules.num_players
    place = (pairs.game * players + pairs.giver % players) * players + pairs.receiver % players
    counts = np.bincount(place, minlength=num_games * players**2)
    return counts.reshape(num_games, players, players)


def _by_seat(read: LinkInputs, which: np.ndarray) -> np.ndarray:
    """int64[N, P]: on how many of its turns each seat is `which` bool[N, T]."""
    players = read.rules.num_players
    return np.stack([which[:, seat::players].sum(axis=1) for seat in range(players)], axis=1)


def constructive(record: GameAnalysis) -> Ratio:
    """Int_cons: information links whose card scored and whose hint told something about it."""
    return _per_game(record, record.links.outcome("constructive"))


def constructive_kept(record: GameAnalysis) -> Ratio:
    """The same, 0 in games that lost every life."""
    kept = record.links.outcome("constructive") * (record.games.lives > 0)[:, None, None]
    return _per_game(record, kept)


def constructive_per_point(record: GameAnalysis) -> Ratio:
    """Constructive links for each point of the receivers: what does not grow with the score."""
    return Ratio(_sums(record.links.outcome("constructive")), _sums(record.links.points))


def nonconstructive(record: GameAnalysis) -> Ratio:
    """Int_non-cons: the information links that are not constructive, whatever the card came to."""
    kept = [name != "constructive" and name != "unused" for name in OUTCOMES]
    return _per_game(record, record.links.outcomes[..., kept])


def misplays(record: GameAnalysis) -> Ratio:
    """Information links whose card was played and did not fit."""
    return _per_game(record, record.links.outcome("misplay"))


def useful_discards(record: GameAnalysis) -> Ratio:
    """Information links whose card was discarded though it could still have scored."""
    return _per_game(record, record.links.outcome("useful_discard"))


def useless_discards(record: GameAnalysis) -> Ratio:
    """Information links whose card was discarded when it could score no more: tidying up."""
    return _per_game(record, record.links.outcome("useless_discard"))


def loops(record: GameAnalysis) -> Ratio:
    """Information links whose card scored, of a hint that repeated what was known of it."""
    return _per_game(record, record.links.outcome("loop"))


def firework(record: GameAnalysis) -> Ratio:
    """Cards that scored on top of another seat's."""
    return _per_game(record, record.links.firework)


def token(record: GameAnalysis) -> Ratio:
    """Hints that spent a token which another seat gained."""
    return _per_game(record, record.links.token)


def triggers(record: GameAnalysis) -> Ratio:
    """%trig: hints on the givers' turns."""
    return _fraction(record.links.hints, record.links.turns)


def triggers_with_token(record: GameAnalysis) -> Ratio:
    """Hints on the givers' turns that had a token to spend."""
    return _fraction(record.links.hints, record.links.token_turns)


def not_accepted(record: GameAnalysis) -> Ratio:
    """A0: hints of whose cards none was played or discarded afterwards."""
    return _fraction(record.links.hints - record.links.accepted, record.links.hints)


def not_prompt(record: GameAnalysis) -> Ratio:
    """A1: hints of whose cards none was played or discarded on the receiver's next turn."""
    return _fraction(record.links.hints - record.links.prompt, record.links.hints)


def not_helpful(record: GameAnalysis) -> Ratio:
    """A2: hints that gave no constructive link."""
    return _fraction(record.links.hints - record.links.helpful, record.links.hints)


def hinted_points(record: GameAnalysis) -> Ratio:
    """Of the receivers' points, those from cards on which a giver gave the first hint."""
    return _fraction(record.links.hinted_points, record.links.points)


def crossing(record: GameAnalysis) -> Ratio:
    """Of the receivers' cards that scored on top of another card, those on top of a giver's."""
    return _fraction(record.links.firework, record.links.steps)


def linked_turns(record: GameAnalysis) -> Ratio:
    """Turns that give or receive in any link."""
    return _fraction(record.links.linked_turns, record.links.turns)


def reciprocal(record: GameAnalysis) -> Ratio:
    """Games in which two seats helped each other: constructive links in both directions."""
    helps = record.links.outcome("constructive") > 0
    both = helps & helps.swapaxes(1, 2)
    return _per_game(record, _sums(both).clip(max=1), is_proportion=True)


def _per_game(record: GameAnalysis, counts: np.ndarray, is_proportion: bool = False) -> Ratio:
    """`counts` [N, ...] of the games that were not left before their end."""
    finished = ~record.games.unfinished
    return Ratio(_sums(counts) * finished, _sums(record.links.games) * finished, is_proportion)


def _fraction(part: np.ndarray, whole: np.ndarray) -> Ratio:
    return Ratio(_sums(part), _sums(whole), is_proportion=True)


def _sums(counts: np.ndarray) -> np.ndarray:
    """float64[N]: the counts [N, ...] of each game."""
    return np.asarray(counts.reshape(len(counts), -1).sum(axis=1), np.float64)
