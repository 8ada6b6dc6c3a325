"""What holds of every wrapper of an agent."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import compiled as game

from hanabi_rl.agents.bots.registry import make_bot
from hanabi_rl.agents.gullible import Gullible
from hanabi_rl.agents.knowing import Knowing
from hanabi_rl.agents.names import load_policy
from hanabi_rl.agents.noisy import Noisy
from hanabi_rl.agents.renamed import Renamed
from hanabi_rl.agents.safe import Safe
from hanabi_rl.agents.search.searched import Searched
from hanabi_rl.agents.search.settings import Settings
from hanabi_rl.agents.tempered import Tempered
from hanabi_rl.env.game import Rules
from hanabi_rl.env.table import full_deck


def test_no_two_wrappers_are_one_structure_to_jit() -> None:
    """See `own_structure`: at one number, a temperature and a chance of a random move were."""
    bot = make_bot("simple", Rules())
    wrapped = [
        Noisy(bot, epsilon=0.5),
        Tempered(bot, temperature=0.5),
        Safe(bot, last_life=0.5, before=0.5),
        Gullible(bot, plays=1),
        Renamed(bot, colors=jnp.arange(5)),
        Searched(bot),
        Knowing(bot, counts=jnp.arange(5)),
    ]
    for one, other in itertools.combinations(wrapped, 2):
        assert jax.tree.structure(one) != jax.tree.structure(other), (one, other)
    again = Tempered(bot, temperature=0.5)
    assert jax.tree.structure(again) == jax.tree.structure(wrapped[1])
    assert all(each.rules == bot.rules for each in wrapped)


def test_every_setting_of_a_wrapper_is_part_of_who_it_is() -> None:
    bots = [make_bot(name, Rules()) for name in ("simple", "random")]
    wrapped = [
        wrapper
        for bot in bots
        for wrapper in (
            bot,
            *(Noisy(bot, epsilon=x) for x in (0.25, 0.5)),
            *(Tempered(bot, temperature=x) for x in (0.25, 0.5)),
            *(Gullible(bot, plays=x) for x in (1, 2)),
            *(Safe(bot, last_life=x, before=y) for x in (0.25, 0.5) for y in (0.25, 0.5)),
            *(Searched(bot, settings=Settings(lam=x)) for x in (0.25, 0.5)),
            Searched(bot, models=(Tempered(bot, temperature=2.0),)),
            *(Renamed(bot, colors=jnp.array(x)) for x in ([0, 1, 2, 3, 4], [1, 0, 2, 3, 4])),
            *(Knowing(bot, counts=jnp.array(x)) for x in ([0, 1, 2, 3, 4], [1, 0, 2, 3, 4])),
        )
    ]
    assert len({each.identity() for each in wrapped}) == len(wrapped) == 36


def test_noise_is_any_legal_move_on_its_share_of_the_turns() -> None:
    """Of first moves; what is most likely stays it."""
    rules = Rules()
    rng = np.random.default_rng(0)
    decks = np.stack([rng.permutation(full_deck(rules)) for _ in range(8)])
    state = game.deal(rules, jnp.asarray(decks, jnp.int32))
    obs, legal = game.observe(rules, state)[:, 0], game.legal_actions(rules, state)[:, 0]

    def chances(name: str) -> np.ndarray:
        policy = load_policy(name, rules)
        _, logits = policy.step(policy.init_carry(8), obs, legal, np.ones(8, bool))
        return np.asarray(jax.nn.softmax(logits), np.float64)

    plain, noisy = chances("bot:piers"), chances("bot:piers?noise=0.25")
    at_random = np.asarray(legal) / np.asarray(legal).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(noisy, 0.75 * plain + 0.25 * at_random, atol=1e-6)
    assert noisy[np.asarray(legal)].min() > 0.01 and noisy[~np.asarray(legal)].max() == 0.0
    np.testing.assert_array_equal(noisy.argmax(axis=1), plain.argmax(axis=1))


@pytest.mark.parametrize("value", ["-0.1", "1.1", "nan"])
def test_noise_is_a_share(value: str) -> None:
    with pytest.raises(ValueError, match=r"noise: expected a share from 0 to 1, got"):
        load_policy(f"bot:piers?noise={value}")


def test_the_gullible_play_their_oldest_hinted_card() -> None:
    """Seat 1 holds B3 Y5 P1 G1 R5. Told of 5s, none of which can be playable, one plays the first
    all the same; told of 1s too, the other plays the first of these. Unhinted they do as they
    do, and so does the other one with 5s alone."""
    rules = Rules()
    cards = ["R4", "R4", "Y4", "Y4", "G4", "B3", "Y5", "P1", "G1", "R5"]
    hands = ["RYGBP".index(card[0]) * 5 + int(card[1]) - 1 for card in cards]
    rest = full_deck(rules)
    for card in hands:
        rest.remove(card)
    discard, play, rank = 0, rules.hand_size, 2 * rules.hand_size + rules.num_colors

    def answer(setting: str, moves: list[int]) -> int:
        """What seat 1 does after these, all of which it saw."""
        policy = load_policy(f"bot:internal{setting}", rules)
        state = game.deal(rules, jnp.asarray([hands + rest], jnp.int32))
        carry = policy.init_carry(1)
        for turn, move in enumerate([*moves, None]):
            obs, legal = game.observe(rules, state)[:, 1], game.legal_actions(rules, state)[:, 1]
            carry, logits = policy.step(carry, obs, legal, jnp.array([turn == 0]))
            if move is not None:
                state, _, _ = game.step(rules, state, jnp.array([move], jnp.int32))
        return int(np.argmax(logits[0]))

    fives, ones = [rank + 4], [rank + 4, rank + 3, rank + 0]
    plain = [answer("", moves) for moves in ([discard], fives)]
    assert [answer("?gullible=1", moves) for moves in ([discard], fives)] == plain
    assert answer("?gullible=2", [discard]) == plain[0] and plain[1] != play + 1
    assert answer("?gullible=2", fives) == answer("?gullible=2", ones) == play + 1
    assert answer("?gullible=1", ones) == play + 2
    with pytest.raises(ValueError, match="gullible: expected 1 or 2, got 3"):
        load_policy("bot:internal?gullible=3")
