"""Interdependence of seats in Hanabi, after Biswas et al. (arXiv 2502.06976v3, "Metrics").

A *trigger* is a hint, on which another player's move may depend. Three criteria of acceptance: a
touched card is used later (A0, the paper's), or on the receiver's next turn (A1), or the hint
yields a constructive link (A2): a touched card scores, and the hint was informative about it.
`links.py` defines the links.
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
    """Link counts of N games, int64: [n, i, j] from seat i to seat j, [n, i] of seat i."""

    hints: np.ndarray  # [N, P, P]
    accepted: np.ndarray  # [N, P, P], hints accepted by A0
    prompt: np.ndarray  # [N, P, P], by A1
    helpful: np.ndarray  # [N, P, P], by A2
    outcomes: np.ndarray  # [N, P, P, 6], hinted cards, by OUTCOMES; the last is no link
    hinted_points: np.ndarray  # [N, P, P], cards of j that scored, first hinted by i
    firework: np.ndarray  # [N, P, P], firework links
    token: np.ndarray  # [N, P, P], token links
    turns: np.ndarray  # [N, P]
    token_turns: np.ndarray  # [N, P], with an information token
    linked_turns: np.ndarray  # [N, P], turns that give or receive in any link
    points: np.ndarray  # [N, P], cards that scored
    steps: np.ndarray  # [N, P], cards that scored, except the first of each colour
    games: np.ndarray  # [N], 1 for games with a counted pair of seats

    def outcome(self, name: str) -> np.ndarray:
        """Hinted cards with this outcome of `OUTCOMES`, [N, P, P]."""
        return self.outcomes[..., OUTCOMES.index(name)]

    def between(self, givers: np.ndarray, receivers: np.ndarray) -> Links:
        """Counts from the seats `givers` to the seats `receivers`, bool[N, P] each; turns are the
        givers', points the receivers'."""
        pair = givers[:, :, None] & receivers[:, None, :] & ~np.eye(givers.shape[1], dtype=bool)
        masks = dict.fromkeys(("turns", "token_turns", "linked_turns"), givers)
        masks |= {"points": receivers, "steps": receivers, "outcomes": pair[..., None]}
        masks["games"] = pair.any(axis=(1, 2))
        return Links(
            **{name: field * masks.get(name, pair) for name, field in self._asdict().items()}
        )


def read_links(games: Games) -> Links:
    """Count the links of recorded games; every seat counts, human or not."""
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
    """Hints per pair of seats, and those accepted by each criterion, int64[N, P, P]."""
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
    marked = np.zeros(shape, bool)
    marked[game, turn] = True
    return marked


def _first_hints(read: LinkInputs, touches: HintedCards) -> LinkPairs:
    first = touches.fresh & (touches.used >= 0)
    game, giver, receiver = (field[first] for field in (touches.game, touches.turn, touches.used))
    scored = read.scored[game, receiver]
    return LinkPairs(game[scored], giver[scored], receiver[scored])


def _outcome_pairs(read: LinkInputs, touches: HintedCards, name: str) -> np.ndarray:
    """Cards with outcome `name`, by giver of the hint and holder, int64[N, P, P]."""
    of_it = touches.outcome == OUTCOMES.index(name)
    game, turn = touches.game[of_it], touches.turn[of_it]
    holder = turn + read.moves.offset[game, turn].astype(np.int64)
    return _by_pair(read, LinkPairs(game, turn, holder))


def _by_pair(read: LinkInputs, pairs: LinkPairs) -> np.ndarray:
    """Number of pairs of turns per ordered pair of seats, int64[N, P, P]."""
    num_games, players = len(read.order), read.rules.num_players
    place = (pairs.game * players + pairs.giver % players) * players + pairs.receiver % players
    counts = np.bincount(place, minlength=num_games * players**2)
    return counts.reshape(num_games, players, players)


def _by_seat(read: LinkInputs, which: np.ndarray) -> np.ndarray:
    """Number of turns of each seat where `which` bool[N, T]."""
    players = read.rules.num_players
    return np.stack([which[:, seat::players].sum(axis=1) for seat in range(players)], axis=1)


def constructive(record: GameAnalysis) -> Ratio:
    """Int_cons: information links of cards that scored after an informative hint."""
    return _per_game(record, record.links.outcome("constructive"))


def constructive_kept(record: GameAnalysis) -> Ratio:
    """`constructive`, but 0 in games that lost every life."""
    included = record.links.outcome("constructive") * (record.games.lives > 0)[:, None, None]
    return _per_game(record, included)


def constructive_per_point(record: GameAnalysis) -> Ratio:
    """Constructive links per point of the receivers, which does not grow with the score."""
    return Ratio(_sums(record.links.outcome("constructive")), _sums(record.links.points))


def nonconstructive(record: GameAnalysis) -> Ratio:
    """Int_non-cons: information links that are not constructive, with any outcome."""
    included = [name != "constructive" and name != "unused" for name in OUTCOMES]
    return _per_game(record, record.links.outcomes[..., included])


def outcome_links(record: GameAnalysis, outcome: str) -> Ratio:
    """Information links with an outcome of `OUTCOMES`."""
    return _per_game(record, record.links.outcome(outcome))


def firework(record: GameAnalysis) -> Ratio:
    """Cards that scored on top of another seat's card."""
    return _per_game(record, record.links.firework)


def token(record: GameAnalysis) -> Ratio:
    """Hints that spent a token gained by another seat."""
    return _per_game(record, record.links.token)


def triggers(record: GameAnalysis) -> Ratio:
    """%trig: hints per turn of the givers."""
    return _fraction(record.links.hints, record.links.turns)


def triggers_with_token(record: GameAnalysis) -> Ratio:
    """Hints per turn of the givers with an information token."""
    return _fraction(record.links.hints, record.links.token_turns)


def not_accepted(record: GameAnalysis) -> Ratio:
    """A0: fraction of hints with no touched card played or discarded later."""
    return _fraction(record.links.hints - record.links.accepted, record.links.hints)


def not_prompt(record: GameAnalysis) -> Ratio:
    """A1: fraction of hints with no touched card used on the receiver's next turn."""
    return _fraction(record.links.hints - record.links.prompt, record.links.hints)


def not_helpful(record: GameAnalysis) -> Ratio:
    """A2: fraction of hints without a constructive link."""
    return _fraction(record.links.hints - record.links.helpful, record.links.hints)


def hinted_points(record: GameAnalysis) -> Ratio:
    """Fraction of the receivers' points from cards first hinted by a giver."""
    return _fraction(record.links.hinted_points, record.links.points)


def crossing(record: GameAnalysis) -> Ratio:
    """Fraction of the receivers' cards that scored on top of another card that was a giver's."""
    return _fraction(record.links.firework, record.links.steps)


def linked_turns(record: GameAnalysis) -> Ratio:
    """Fraction of turns that give or receive in any link."""
    return _fraction(record.links.linked_turns, record.links.turns)


def reciprocal(record: GameAnalysis) -> Ratio:
    """Fraction of games with constructive links in both directions between two seats."""
    helps = record.links.outcome("constructive") > 0
    both = helps & helps.swapaxes(1, 2)
    return _per_game(record, _sums(both).clip(max=1), is_proportion=True)


def _per_game(record: GameAnalysis, counts: np.ndarray, is_proportion: bool = False) -> Ratio:
    """Mean of `counts` [N, ...] over finished games."""
    finished = ~record.games.unfinished
    return Ratio(_sums(counts) * finished, _sums(record.links.games) * finished, is_proportion)


def _fraction(part: np.ndarray, whole: np.ndarray) -> Ratio:
    return Ratio(_sums(part), _sums(whole), is_proportion=True)


def _sums(counts: np.ndarray) -> np.ndarray:
    return np.asarray(counts.reshape(len(counts), -1).sum(axis=1), np.float64)
