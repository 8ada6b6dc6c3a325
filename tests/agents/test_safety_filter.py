"""The safety filter."""

import jax
import numpy as np
import pytest
from scipy.special import log_softmax
from support import compiled as game
from support.compiled import observe

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.safety_filter import playable_probs
from hanabi_rl.games.hanabi.python_game import PythonGame, full_deck
from hanabi_rl.games.hanabi.rules import Rules

RULES = Rules(num_players=2, num_colors=3, num_ranks=3, hand_size=3, max_life_tokens=2)


def played(seed: int, turns: int) -> tuple[PythonGame, np.ndarray, np.ndarray]:
    """A random game after some turns: the game, the current player's observation and legal
    actions."""
    rng = np.random.default_rng(seed)
    deck = rng.permutation(full_deck(RULES))
    table = PythonGame(RULES, deck)
    state = game.deal(RULES, deck[None].astype(np.int32))
    while table.turn < turns and not table.over:
        legal = [a for a in range(RULES.num_actions) if table.illegal_reason(a) is None]
        action = int(rng.choice(legal))
        table.apply(action)
        state, _, _ = game.step(RULES, state, np.array([action]))
    seat = table.player
    obs, legal = (np.asarray(of(RULES, state))[0, seat] for of in (observe, game.legal_actions))
    return table, obs, legal


def counted(table: PythonGame) -> list[float]:
    """Probability that each card of the current player's hand is playable, by counting the deck."""
    me, ranks = table.player, RULES.num_ranks
    others = {order for seat, hand in enumerate(table.hands) if seat != me for order in hand}
    gone = set(range(table.drawn)) - others - set(table.hands[me])
    unseen = [card for order, card in enumerate(table.deck) if order not in others | gone]
    found = []
    for order in table.hands[me]:
        known = table.knowledge[order]
        fits = [divmod(card, ranks) for card in unseen]
        fits = [(c, r) for c, r in fits if c in known.colors and r in known.ranks]
        found.append(sum(table.fireworks[c] == r for c, r in fits) / len(fits))
    return found + [0.0] * (RULES.hand_size - len(found))


@pytest.mark.parametrize("seed", range(12))
def test_playable_probs_match_card_counting(seed: int) -> None:
    table, obs, _ = played(seed, turns=seed)
    prob, lives = jax.jit(playable_probs, static_argnums=0)(RULES, obs)
    np.testing.assert_allclose(prob, counted(table), atol=1e-6)
    assert lives == table.life_tokens


@pytest.mark.parametrize("seed", range(12))
def test_filter_removes_only_risky_plays(seed: int) -> None:
    """Compared with the unfiltered agent, whose logits are the uniform distribution."""
    table, obs, legal = played(seed, turns=seed)
    rows = obs[None], legal[None], np.ones(1, bool)
    plain, safe = (load_policy(f"bot:random{option}", RULES) for option in ("", "?safe=0.7,0.4"))
    _, free = game.ask(plain, plain.init_carry(1), *rows)
    _, held = game.ask(safe, safe.init_carry(1), *rows)
    least = 0.7 if table.life_tokens == 1 else 0.4
    expected = legal.copy()
    for slot, prob in enumerate(counted(table)):
        expected[RULES.hand_size + slot] &= prob >= least
    assert expected.any()
    np.testing.assert_array_equal(np.asarray(held)[0] > -1e9, expected)
    np.testing.assert_array_equal(np.asarray(held)[0][expected], np.asarray(free)[0][expected])


def test_sampled_risky_play_is_replaced() -> None:
    """With a key, a stochastic bot returns only its sampled action."""
    _, obs, legal = played(0, turns=0)
    many = 64
    rows = np.tile(obs, (many, 1)), np.tile(legal, (many, 1)), np.ones(many, bool)
    keys = jax.random.split(jax.random.key(0), many)
    plain, safe = (load_policy(f"bot:random{option}", RULES) for option in ("", "?safe=1,1"))
    drawn, held = (
        np.asarray(game.ask(policy, policy.init_carry(many), *rows, keys)[1])
        for policy in (plain, safe)
    )
    risky = np.zeros(RULES.num_actions, bool)
    risky[RULES.hand_size : 2 * RULES.hand_size] = True
    of_risky = risky[drawn.argmax(axis=-1)]
    assert 0 < of_risky.sum() < many
    np.testing.assert_array_equal(held[~of_risky].argmax(axis=-1), drawn[~of_risky].argmax(axis=-1))
    for row in held[of_risky]:
        np.testing.assert_array_equal(row == row.max(), legal & ~risky)


def test_filtered_certain_play_becomes_uniform() -> None:
    """A gullible agent excludes all but one play. Without that play, each safe move has probability
    1 / n."""
    seed, found = 0, 0
    while found < 3:
        _, obs, legal = played(seed, turns=6)
        sure, held = (
            np.asarray(game.ask(policy, policy.init_carry(1), obs[None], legal[None], first)[1])[0]
            for policy in (
                load_policy(f"bot:random?gullible=2{more}", RULES) for more in ("", "&safe=1,1")
            )
            for first in [np.ones(1, bool)]
        )
        seed += 1
        if (sure > -1e9).sum() == 1 and held[sure.argmax()] < -1e9:
            found += 1
            safe = held > -1e9
            assert safe.sum() > 0 and not (safe & ~legal).any()
            nats = -log_softmax(held)
            np.testing.assert_allclose(nats[safe], np.log(safe.sum()), rtol=1e-5)
    assert seed < 100


def test_filter_keeps_moves_if_all_risky() -> None:
    """For example with hands of one card: all tokens, no partner to hint, and no discard."""
    table, obs, _ = played(0, turns=0)
    legal = np.zeros(RULES.num_actions, bool)
    legal[RULES.hand_size : 2 * RULES.hand_size] = True
    safe = load_policy("bot:random?safe=1,1", RULES)
    assert max(counted(table)) < 1
    _, held = game.ask(safe, safe.init_carry(1), obs[None], legal[None], np.ones(1, bool))
    np.testing.assert_array_equal(np.asarray(held)[0] > -1e9, legal)


def test_setting_errors_name_the_setting() -> None:
    for text in ("0.5", "0.5,2", "0.1,0.2,0.3"):
        with pytest.raises(ValueError, match="safe: expected two probabilities from 0 to 1"):
            load_policy(f"bot:random?safe={text}", RULES)


def test_identity_covers_thresholds() -> None:
    names = ["bot:random", "bot:random?safe=0.6,0.1", "bot:random?safe=0.6,0.2"]
    assert len({load_policy(name, RULES).identity() for name in names}) == 3
