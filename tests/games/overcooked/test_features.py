"""`distance_features` against plain Python; `KitchenConfig`."""

from typing import Any

import jax
import numpy as np
import pytest
from support.compiled import Compiled, ask, init_params
from support.overcooked import actions_with_soups
from support.plain_overcooked import PlainOvercooked

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.games.overcooked import Overcooked, load_kitchen
from hanabi_rl.games.overcooked.features import distance_features
from hanabi_rl.nn.kitchen_network import KitchenConfig
from hanabi_rl.nn.networks import NetworkConfig

SIDES = ((0, -1), (0, 1), (1, 0), (-1, 0))
PER_PLAYER = 3 * 11 + 4 * 6 + 3 + 4 + 2


def by_hand(game: PlainOvercooked, p: int) -> np.ndarray:
    """Features of player p, from the game's letters."""
    find, pots, lying = game.find, game.pots, game.lying
    of = [
        *(find(letter) for letter in "ODS"),
        *([at for at, thing in lying.items() if thing == letter] for letter in "ods"),
        [at for at, (onions, _) in pots.items() if onions == 0],
        [at for at, (onions, _) in pots.items() if onions in (1, 2)],
        [at for at, (onions, cooked) in pots.items() if onions == 3 and cooked < 20],
        [at for at, pot in pots.items() if pot == [3, 20]],
        [at for at in find("X") if at not in lying],
    ]
    found: list[float] = []
    for player in (p, 1 - p):
        x, y = game.places[player]

        def order(at: tuple[int, int], x: int = x, y: int = y) -> tuple[int, int, int]:
            return abs(at[0] - x) + abs(at[1] - y), at[1], at[0]

        nearest = [min(places, key=order) if places else None for places in of]
        found += [at is not None for at in nearest]
        found += [0 if at is None else (at[1] - y) / 4 for at in nearest]
        found += [0 if at is None else (at[0] - x) / 4 for at in nearest]
        for dx, dy in SIDES:
            at = (x + dx, y + dy)
            found += [game.rows[at[1]][at[0]] == letter for letter in "PXODS"]
            found.append(at in game.places)
        found += [game.hands[player] == letter for letter in "ods"]
        found += [game.directions[player] == side for side in SIDES]
        found += [y / 4, x / 4]
    (x, y), (x2, y2) = game.places[p], game.places[1 - p]
    found += [(y2 - y) / 4, (x2 - x) / 4]
    found.append(max((onions for onions, _ in pots.values() if onions < 3), default=0) / 3)
    found.append(max((20 - cooked for onions, cooked in pots.values() if onions == 3), default=0))
    found[-1] /= 20
    found.append(game.horizon - game.time < 40)
    return np.array(found, np.float32)


@pytest.mark.parametrize("name", ["cramped_room", "forced_coordination", "counter_circuit"])
def test_equals_plain_python(name: str) -> None:
    kitchen = load_kitchen(name)
    games = [PlainOvercooked(kitchen.rows, kitchen.start(None), 100) for _ in range(2)]
    actions = actions_with_soups(games, 90, seed=3)
    obs, expected = [], []
    for t in range(90):
        for g, game in enumerate(games):
            game.step(actions[t, g])
            if t % 3 == 0:
                obs.append(game.observation())
                expected.append([by_hand(game, p) for p in (0, 1)])
    got = np.asarray(jax.jit(distance_features)(np.array(obs, np.uint8)))
    assert got.shape == (60, 2, 2 * PER_PLAYER + 5) and got.dtype == np.float32
    np.testing.assert_allclose(got, np.array(expected), rtol=0, atol=1e-6)
    assert np.isfinite(got).all()


def test_partner_sees_itself() -> None:
    """The blocks of the two players are exchanged, and the offset between them is negated."""
    game, keys = Compiled(Overcooked(kitchen="coordination_ring")), np.zeros((3, 2), np.uint32)
    state = game.start(keys)
    for actions in np.random.default_rng(2).integers(6, size=(30, 3, 2)):
        state, _ = game.step(state, actions, keys)
    first, second = np.asarray(jax.jit(distance_features)(game.observe(state))).swapaxes(0, 1)
    n = PER_PLAYER
    np.testing.assert_array_equal(first[:, :n], second[:, n : 2 * n])
    np.testing.assert_array_equal(first[:, n : 2 * n], second[:, :n])
    np.testing.assert_array_equal(first[:, 2 * n : 2 * n + 2], -second[:, 2 * n : 2 * n + 2])
    np.testing.assert_array_equal(first[:, 2 * n + 2 :], second[:, 2 * n + 2 :])


def test_network_reads_features_and_the_own_last_action() -> None:
    game = Overcooked(last_action=True)
    config = KitchenConfig(embedding=(8,), decoder=(8,))
    params = init_params(game, config, jax.random.key(0))
    inputs = jax.tree.leaves(params)
    assert 2 * PER_PLAYER + 5 + 6 in {leaf.shape[0] for leaf in inputs}
    policy = NetworkPolicy(params, game, config)
    play, keys = Compiled(game), np.zeros((2, 2), np.uint32)
    # both stay where they stand: only the last action differs
    state = play.step(play.start(keys), np.array([[4, 4], [5, 4]]), keys)[0]
    players, obs = np.asarray(state.players), np.asarray(play.observe(state))[:, 0]
    assert (players[0] == players[1]).all()
    legal, reset = np.ones((2, 6), bool), np.ones(2, bool)
    logits = np.asarray(ask(policy, policy.init_carry(2), obs, legal, reset)[1])
    assert np.abs(logits[0] - logits[1]).max() > 1e-4
    # the same weights on the features themselves
    plain = NetworkConfig(
        **{
            name: getattr(config, name)
            for name in ("embedding", "lstm", "decoder", "critic", "activation", "layer_norm")
        }
        | {"dropout": 0.0}
    )
    features = jax.jit(distance_features)(obs)[None]
    out: Any = jax.jit(plain.actor(6).apply)(
        {"params": params}, plain.initial_carry(2), features, legal[None], reset[None]
    )
    np.testing.assert_allclose(out[1][0], logits, rtol=1e-5, atol=1e-6)
