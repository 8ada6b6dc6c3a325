"""Context independence: atoms against `PythonGame`, formulas and CI against definitions and closed
forms."""

import numpy as np
import pytest
from support.games import random_games, teacher_games

from hanabi_rl.data.games import Games
from hanabi_rl.evaluation.measure import formulas
from hanabi_rl.evaluation.measure.context_independence import (
    MESSAGES,
    atom_names,
    ci_per_concept,
    ci_ratio,
    context_independence,
    formula_counts,
    pool_spread,
    read_concepts,
)
from hanabi_rl.evaluation.measure.formulas import compile_formulas, formula_pools, sample_trees
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.evaluation.measure.turn_masks import counted_turn_mask, with_counted_seats
from hanabi_rl.games.hanabi.actions import Move, decode_action
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.rules import Rules

SMALL = Rules(num_colors=2, num_ranks=3, hand_size=2, max_info_tokens=4, max_life_tokens=3)
THREE = Rules(
    num_players=3,
    num_colors=2,
    num_ranks=3,
    hand_size=2,
    max_info_tokens=4,
    num_cards_of_rank=(3, 3, 1),
)


class Watched(PythonGame):
    """`PythonGame` with its last move."""

    last: Move | None = None
    scored = False
    touched_before: frozenset[int] = frozenset()  # orders of the cards

    def apply(self, action: int) -> None:
        move, before = decode_action(self.rules, action), self.points
        target = self.hands[(self.player + max(move.offset, 0)) % self.rules.num_players]
        hint = move.kind in ("color", "rank")
        slots = self.touched(move) if hint else []
        self.touched_before = frozenset(target[slot] for slot in slots)
        super().apply(action)
        self.last, self.scored = move, self.points > before


def true_atoms(table: Watched) -> set[str]:
    """Names of the true atoms for the current player."""
    rules, last = table.rules, table.last
    card = [divmod(number, rules.num_ranks) for number in table.deck]
    gone = [table.deck[order] for order in table.discards]

    def copies_left(color: int, rank: int) -> int:
        return rules.num_cards_of_rank[rank] - gone.count(color * rules.num_ranks + rank)

    def playable(color: int, rank: int) -> bool:
        return table.fireworks[color] == rank

    def useless(color: int, rank: int) -> bool:
        lost = any(copies_left(color, lower) == 0 for lower in range(table.fireworks[color], rank))
        return rank < table.fireworks[color] or lost

    atoms = {f"tokens = {table.info_tokens}", f"lives = {table.life_tokens}"}
    atoms |= {f"points >= {minimum}" for minimum in (5, 10, 15, 20) if table.points >= minimum}
    left = rules.deck_size - table.drawn
    atoms |= {
        name for name, holds in (("deck = 0", left == 0), ("deck <= 10", left <= 10)) if holds
    }
    atoms |= {f"firework {color} = {top}" for color, top in enumerate(table.fireworks)}
    if last is not None:
        kind = {"color": "colour hint", "rank": "rank hint", "discard": "discard"}.get(last.kind)
        atoms.add(f"last move: {kind or ('play' if table.scored else 'misplay')}")
    for slot, order in enumerate(table.hands[table.player]):
        known = table.knowledge[order]
        can_be = [(c, r) for c in known.colors for r in known.ranks]
        for name, holds in {
            "colour named": known.hinted_color is not None,
            "rank named": known.hinted_rank is not None,
            "named": (known.hinted_color, known.hinted_rank) != (None, None),
            "touched by the last move": order in table.touched_before,
            "playable": all(playable(*one) for one in can_be),
            "useless": all(useless(*one) for one in can_be),
            **{f"rank {r}": known.ranks == {r} for r in range(rules.num_ranks)},
            **{f"colour {c}": known.colors == {c} for c in range(rules.num_colors)},
        }.items():
            atoms |= {f"own {slot}: {name}"} if holds else set()
    following = (table.player + 1) % rules.num_players
    took = last is not None and last.kind in ("play", "discard")
    for slot, order in enumerate(table.hands[following]):
        (color, rank), known = card[order], table.knowledge[order]
        newest = slot == len(table.hands[following]) - 1
        for name, holds in {
            "playable": playable(color, rank),
            "critical": not useless(color, rank) and copies_left(color, rank) == 1,
            "useless": useless(color, rank),
            "named": (known.hinted_color, known.hinted_rank) != (None, None),
            "just drawn": took and newest and rules.num_players == 2,
            f"rank {rank}": True,
            f"colour {color}": True,
        }.items():
            atoms |= {f"next {slot}: {name}"} if holds else set()
    return atoms


def every_turn(games: Games) -> list[tuple[int, int, str, set[str]]]:
    """(game, turn, kind of move, true atoms) of every counted turn."""
    found, counted = [], counted_turn_mask(games)
    for game in range(len(games)):
        table = Watched(games.rules, games.decks[game])
        for turn, action in enumerate(games.moves(game)):
            if counted[game, turn]:
                kind = decode_action(games.rules, action).kind
                found.append((game, turn, kind, true_atoms(table)))
            table.apply(action)
    return found


def bit(words: np.ndarray, turn: int) -> np.ndarray:
    return (words[..., turn // 32] >> np.uint32(turn % 32)) & 1 != 0


@pytest.mark.parametrize("rules", [SMALL, THREE, Rules()], ids=["small", "3 players", "standard"])
def test_atoms_match_definition(rules):
    games = random_games(rules, 8 if rules.is_standard else 30, seed=4)
    concepts, names = read_concepts(games), atom_names(rules)
    assert len(set(names)) == len(names) == concepts.atoms.shape[1]
    seen = set()
    for game, turn, kind, atoms in every_turn(games):
        found = {names[place] for place in np.flatnonzero(bit(concepts.atoms[game], turn))}
        assert found == atoms, (game, turn, found ^ atoms)
        sent = bit(concepts.messages[game], turn)
        assert [message for message, one in zip(MESSAGES, sent, strict=True) if one] == [kind]
        seen |= atoms
    if rules is SMALL:
        never = {"points >= 10", "points >= 15", "points >= 20"}  # the game has six cards
        missed = set(names) - seen - never
        assert not {name for name in missed if "firework" not in name}, missed


def test_two_players_have_208_atoms():
    assert len(atom_names(Rules())) == 208


def holds(tree: tuple, atoms: set[str], names: tuple[str, ...]) -> bool:
    if tree[0] in ("and", "or"):
        sides = [holds(side, atoms, names) for side in tree[1:]]
        return all(sides) if tree[0] == "and" else any(sides)
    return (names[tree[0]] in atoms) != tree[1]


@pytest.mark.parametrize("bogin", [False, True])
@pytest.mark.parametrize("seats", ["all", "one"])
def test_context_independence_matches_definition(bogin, seats):
    games = random_games(SMALL, 10)
    games = games if seats == "all" else with_counted_seats(games, np.array([False, True]))
    names, trees = atom_names(SMALL), sample_trees(69, 40, np.random.default_rng(5))
    assert len(names) == 69
    turns, total = every_turn(games), 0.0
    for tree in trees:
        kinds = [kind for *_, kind, atoms in turns if holds(tree, atoms, names)]
        if kinds:
            of_kind = {m: sum(kind == m for *_, kind, _ in turns) or 1 for m in MESSAGES}
            given = {m: kinds.count(m) / len(kinds) for m in MESSAGES}
            back = {m: kinds.count(m) / of_kind[m] for m in MESSAGES}
            best = max(MESSAGES, key=lambda m: (back if bogin else given)[m])  # the first in a tie
            total += given[best] * back[best]
    concepts = read_concepts(games)
    counts = formula_counts(concepts, compile_formulas(trees))
    sent = np.array(
        [[sum(k == m and g == n for g, _, k, _ in turns) for n in range(10)] for m in MESSAGES]
    )
    ratio = ci_ratio(counts, sent, bogin=bogin)
    assert ratio.mean == pytest.approx(total / 40, abs=1e-12)
    assert ratio.denominator.sum() == len(turns) == counted_turn_mask(games).sum()


def test_formula_pools_are_seeded():
    trees = sample_trees(1000, 4000, np.random.default_rng(0))

    def atoms(tree):
        return [tree] if not isinstance(tree[0], str) else [a for t in tree[1:] for a in atoms(t)]

    def depth(tree):
        return 1 if not isinstance(tree[0], str) else 1 + max(map(depth, tree[1:]))

    leaves = [leaf for tree in trees for leaf in atoms(tree)]
    assert np.mean([negated for _, negated in leaves]) == pytest.approx(formulas.NEGATED, abs=0.02)
    assert len({index for index, _ in leaves}) > 950
    fractions = np.bincount([depth(tree) for tree in trees], minlength=4)[1:] / len(trees)
    assert fractions == pytest.approx([1 / 3] * 3, abs=0.03)
    pools, again, other = formula_pools(208), formula_pools.__wrapped__(208), formula_pools(208, 1)
    assert [len(pool.leaves) for pool in pools] == [500] * 10
    assert np.array_equal(pools[3].leaves, again[3].leaves)
    assert not np.array_equal(pools[0].leaves, pools[1].leaves)
    assert not np.array_equal(pools[0].leaves, other[0].leaves)


def test_deep_formula_is_rejected():
    leaf = (0, False)
    deep = ("and", ("or", ("and", leaf, leaf), leaf), leaf)
    with pytest.raises(ValueError, match="depth <= 3"):
        compile_formulas([deep])


def test_message_concepts_are_context_independent():
    sent = np.array([5, 9, 2, 4])
    value, message = ci_per_concept(np.diag(sent), sent)
    assert value.tolist() == [1, 1, 1, 1] and message.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("bogin", [False, True])
def test_messages_that_ignore_the_state(bogin):
    """p(m | c) = p(m) and p(c | m) = p(c): CI is the mean p(c) times the largest p(m)."""
    sent, truth = np.array([40, 30, 20, 10]), np.array([0.5, 0.1, 0.0])
    both = truth[:, None] * sent
    value, _ = ci_per_concept(both, sent, bogin=bogin)
    assert value == pytest.approx(truth * 0.4)


def test_negation_matters_and_order_does_not():
    concepts = read_concepts(random_games(SMALL, 10))
    sent = np.array([[bit(concepts.messages, t)[:, m] for t in range(64)] for m in range(4)]).sum(1)
    trees = sample_trees(69, 30, np.random.default_rng(1))
    order = np.random.default_rng(2).permutation(69)
    place = np.argsort(order)

    def renamed(tree):
        return (
            (int(place[tree[0]]), tree[1])
            if not isinstance(tree[0], str)
            else (tree[0], *map(renamed, tree[1:]))
        )

    same = formula_counts(
        concepts._replace(atoms=concepts.atoms[:, order]),
        compile_formulas(list(map(renamed, trees))),
    )
    assert np.array_equal(same, formula_counts(concepts, compile_formulas(trees)))
    one, other = formula_counts(concepts, compile_formulas([(0, False), (0, True)]))
    assert np.array_equal(one + other, sent) and one.any() and other.any()


def test_mean_and_sd_over_pools():
    record = GameAnalysis(random_games(SMALL, 40))
    means = [ratio.mean for ratio in record.independence.likeliest]
    assert len(means) == 10 and len(set(means)) == 10
    assert context_independence(record).mean == pytest.approx(np.mean(means))
    assert pool_spread(record) == pytest.approx(np.std(means, ddof=1))
    bogin = [ratio.mean for ratio in record.independence.bogin]
    assert context_independence(record, bogin=True).mean == pytest.approx(np.mean(bogin))


def test_game_terms_linearise_resampling():
    """Against CI recomputed on resampled games, with each concept's message fixed."""
    concepts = read_concepts(teacher_games(SMALL, 150))
    counts = formula_counts(concepts, formula_pools(69)[0])  # [C, 4, N]
    sent = np.array([bit(concepts.messages, turn) for turn in range(64)]).sum(axis=0).T  # [4, N]
    ratio, rng = ci_ratio(counts, sent), np.random.default_rng(0)
    _, message = ci_per_concept(counts.sum(axis=2), sent.sum(axis=1))
    recomputed, linear = [], []
    for _ in range(100):
        sampled = rng.integers(150, size=150)
        both, of_kind = counts[..., sampled].sum(axis=2), sent[:, sampled].sum(axis=1)
        true = np.maximum(both.sum(axis=1), 1)
        recomputed.append((both[np.arange(500), message] ** 2.0 / true / of_kind[message]).mean())
        linear.append(ratio.numerator[sampled].sum() / ratio.denominator[sampled].sum())
    assert np.corrcoef(recomputed, linear)[0, 1] > 0.99
    assert np.std(recomputed) == pytest.approx(np.std(linear), rel=0.02)
