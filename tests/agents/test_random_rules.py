"""Random rule lists: sampling of lists, and the rule that acts."""

from typing import Any

import jax
import numpy as np
import pytest
from support import compiled as game
from support.compiled import observe

from hanabi_rl.agents.bots.random_rules import GROUPS, RULES, sample_list
from hanabi_rl.agents.bots.registry import bot_parameters, make_bot
from hanabi_rl.agents.bots.rule_set import RuleInputs, rule_inputs
from hanabi_rl.games.hanabi.python_game import full_deck
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import decode_observation
from hanabi_rl.learning.partner_population import stack_policies

GAME = Rules()
SEEDS = range(60)
DECK_SEED, POSITIONS, TURNS = 3, 16, 24


@pytest.fixture(scope="module")
def positions() -> tuple[RuleInputs, np.ndarray]:
    """Inputs [N, ...] of the player to move after random moves, and its legal actions bool[N, A].

    Candidates by hints are random and contain the card's own attributes only by chance: rules need
    no more."""
    rng = np.random.default_rng(DECK_SEED)
    decks = rng.permuted(np.tile(np.array(full_deck(GAME), np.int32), (POSITIONS, 1)), axis=1)
    state = game.deal(GAME, decks)
    rows: list[tuple[Any, ...]] = []
    for turn in range(TURNS):
        legal = np.asarray(game.legal_actions(GAME, state))[:, turn % 2]
        obs = np.asarray(observe(GAME, state))[:, turn % 2]
        rows.append((obs[turn % POSITIONS], legal[turn % POSITIONS]))
        weights = legal * rng.uniform(size=legal.shape)
        weights[:, 5:10] *= 0.5  # fewer lost lives
        state = game.step(GAME, state, weights.argmax(axis=1).astype(np.int32))[0]
    obs, legal = (np.stack(column) for column in zip(*rows, strict=True))
    possible = rng.integers(1, GAME.all_cards, (len(obs), 1, 5), dtype=np.uint32)
    possible &= rng.integers(1, GAME.all_cards, possible.shape, dtype=np.uint32)

    def read(one: Any, cards: Any) -> RuleInputs:
        return rule_inputs(GAME, cards | 1, decode_observation(GAME, one))

    return jax.device_get(jax.jit(jax.vmap(read))(obs, possible)), legal


def test_first_rule_of_the_list_that_fires_acts(positions: tuple[RuleInputs, np.ndarray]) -> None:
    facts, legal = positions
    weights = {
        name: np.asarray(jax.jit(jax.vmap(lambda one, r=rule: r(GAME, one)))(facts))
        for name, rule in RULES.items()
    }
    population = stack_policies([make_bot("random-rules", GAME, seed=seed) for seed in SEEDS])
    assert population.stack_sizes == (len(SEEDS),)

    def of_all(bots: Any) -> jax.Array:
        return jax.vmap(lambda bot: jax.vmap(bot.rule_weights)(facts, legal))(bots)

    found = np.asarray(jax.jit(of_all)(population.stacks[0]))
    acted = set()
    for seed in SEEDS:
        for position in range(len(legal)):
            expected = legal[position].astype(np.float32)
            for name in sample_list(seed):
                if weights[name][position].any():
                    expected = weights[name][position]
                    acted.add(name)
                    break
            np.testing.assert_array_equal(found[seed, position], expected, f"{seed}, {position}")
    assert len(acted) > 25


def orders(lists: list[list[str]], first: str, second: str) -> set[bool]:
    """Whether a list has `first` before `second`, over the lists with both."""
    return {
        names.index(first) < names.index(second) for names in lists if {first, second} <= {*names}
    }


def test_random_lists() -> None:
    lists = [sample_list(seed) for seed in range(300)]
    assert {name for names in lists for name in names} == set(RULES)
    for group in GROUPS:
        numbers = {sum(name in group.rules for name in names) for names in lists}
        assert numbers == set(range(group.fewest, group.most + 1))
    assert all(names[-2:] == ["otherwise discard oldest", "otherwise hint any"] for names in lists)
    assert len({tuple(names) for names in lists}) > 290
    # in either order if their places overlap, otherwise in one
    assert orders(lists, "hint any", "play known") == {False, True}
    assert orders(lists, "discard any", "play known") == {False}


def test_random_rules_parameters() -> None:
    assert set(bot_parameters("random-rules")) == {"smoothing", "seed"}
    with pytest.raises(ValueError, match="bot:random-rules: seed: expected 0 or more, got -1"):
        make_bot("bot:random-rules", GAME, seed=-1)
    with pytest.raises(ValueError, match="got 'places'"):
        make_bot("bot:random-rules", GAME, places=3)
    assert len({make_bot("random-rules", GAME, seed=seed).identity() for seed in range(3)}) == 3
