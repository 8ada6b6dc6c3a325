"""`play_episodes`: games by number, seats, sampling, starts, errors; cross-play of a `Game`."""

import dataclasses
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.tiny_games import Dice, ManyActions

from hanabi_rl.agents.python_agent import as_policy
from hanabi_rl.evaluation.measure.crossplay import (
    evaluate_lineup,
    evaluate_pair,
    evaluate_with_partners,
)
from hanabi_rl.evaluation.measure.record_prediction import record_logits
from hanabi_rl.games.overcooked import Overcooked
from hanabi_rl.play.game_episodes import play_episodes, records_of


@flax.struct.dataclass
class Counting:
    """Has logits `scale` * (step of the game + own value + shift) % 4; counts in its carry."""

    shift: jax.Array
    scale: jax.Array
    rules: Any = flax.struct.field(pytree_node=False)

    def init_carry(self, batch: int) -> Any:
        return jnp.full(batch, 77)

    def step(self, carry: Any, obs: Any, legal: Any, reset: Any, key: Any = None) -> Any:
        count = jnp.where(reset, 0, carry)
        wanted = (count + jnp.round(obs[:, 0] * 8).astype(int) + self.shift) % 4
        logits = jax.nn.one_hot(wanted, self.rules.num_actions) * self.scale
        return count + 1, jnp.where(legal, logits, -1e10)


def policy(shift: int, scale: float = 50.0, game: Any = None) -> Counting:
    return Counting(jnp.int32(shift), jnp.float32(scale), game or Dice())


LINEUP = (policy(0), policy(1), policy(0, 1.0))


def test_scores_and_lengths_are_of_the_recorded_actions() -> None:
    played = play_episodes(LINEUP, 40)
    assert (played.lengths >= 1).all() and (played.lengths <= 9).all()
    for actions, length in zip(played.actions, played.lengths, strict=True):
        assert (actions[length:] == 0).all()
    rewards = played.actions.sum(axis=-1, dtype=int) % 3
    np.testing.assert_array_equal(played.scores, rewards.sum(axis=1))
    assert len(set(played.lengths.tolist())) > 3
    assert played.actions.shape == (40, 9, 3) and played.actions.dtype == np.uint8


def test_games_do_not_depend_on_their_chunk() -> None:
    whole = play_episodes(LINEUP, 40, seed=3)
    for size in (16, 40):
        chunked = play_episodes(LINEUP, 40, seed=3, chunk_size=size)
        jax.tree.map(np.testing.assert_array_equal, whole, chunked)
    fewer = play_episodes(LINEUP, 16, seed=3)
    np.testing.assert_array_equal(fewer.actions, whole.actions[:16])


def test_seeds_and_purposes_play_different_games() -> None:
    base = play_episodes(LINEUP, 40, seed=3)
    for other in (
        play_episodes(LINEUP, 40, seed=4),
        play_episodes(LINEUP, 40, seed=3, purpose="selection"),
    ):
        assert (other.actions != base.actions).any()


@pytest.mark.parametrize("seating", [(0, 1, 2), (2, 0, 1), (1, 0, 2)])
def test_policies_sit_where_the_seating_puts_them(seating: tuple[int, ...]) -> None:
    words = np.random.default_rng(0).integers(2**32, size=(50, 2), dtype=np.uint32)
    starts = jax.jit(Dice().start)(words)
    lineup = (policy(0), policy(1), policy(2))
    played = play_episodes(lineup, 50, seating=seating, starts=starts, sample=False)
    values = np.asarray(starts.values)
    for shift, seat in enumerate(seating):
        wanted = (values[:, seat] + shift) % 4
        legal = (wanted == 0) | ((values[:, seat] + wanted) % 3 != 0)
        assert legal.sum() > 20
        np.testing.assert_array_equal(played.actions[legal, 0, seat], wanted[legal])


def test_one_policy_object_at_many_seats_is_as_many_copies() -> None:
    one = policy(1)
    together = play_episodes((one, one, policy(0)), 40, sample=True)
    apart = play_episodes((policy(1), policy(1), policy(0)), 40, sample=True)
    np.testing.assert_array_equal(together.actions, apart.actions)


def test_sampled_actions_follow_the_logits_and_differ_by_seat() -> None:
    # values 0: actions 0, 1 and 2 are legal
    starts = jax.jit(Dice().start)(np.zeros((4000, 2), np.uint32))
    played = play_episodes((policy(0, 1.0),) * 3, 4000, sample=True, starts=starts)
    first = played.actions[:, 0].astype(int)
    e = np.exp(1.0)
    expected = np.array([e, 1, 1]) / (e + 2)
    for seat in range(3):
        rate = np.bincount(first[:, seat], minlength=4) / 4000
        np.testing.assert_allclose(rate, [*expected, 0], atol=0.04)
    joint = np.bincount(first[:, 0] * 3 + first[:, 1], minlength=9).reshape(3, 3) / 4000
    np.testing.assert_allclose(joint, np.outer(expected, expected), atol=0.04)
    greedy = play_episodes((policy(0, 1.0),) * 3, 4000, sample=False, starts=starts)
    assert (greedy.actions[:, 0] == 0).all()


def test_default_sampling_is_the_games() -> None:
    one = policy(0, 1.0)
    np.testing.assert_array_equal(
        play_episodes((one,) * 3, 40).actions, play_episodes((one,) * 3, 40, sample=True).actions
    )
    assert not Overcooked.is_greedy


def test_errors() -> None:
    good = policy(0)
    with pytest.raises(ValueError, match="finite logits, got NaN"):
        play_episodes((good, policy(0, np.nan), policy(1)), 40)
    with pytest.raises(ValueError, match="at least one game, got num_games=0"):
        play_episodes((good,) * 3, 0)
    with pytest.raises(ValueError, match="chunk_size: expected at least 1, got 0"):
        play_episodes((good,) * 3, 4, chunk_size=0)
    with pytest.raises(ValueError, match="permutation of 3 seats"):
        play_episodes((good,) * 3, 4, seating=(0, 1, 1))
    with pytest.raises(ValueError, match="3"):
        play_episodes((good,) * 2, 4)
    with pytest.raises(ValueError, match="horizon 5"):
        play_episodes((good, good, policy(0, game=Dice(horizon=5))), 4)


class Always:
    """A policy of `rules` that is no pytree: always the same action."""

    def __init__(self, rules: Any, action: int) -> None:
        self.rules, self.action = rules, action

    def init_carry(self, batch: int) -> Any:
        return jnp.zeros(batch)

    def step(self, carry: Any, obs: Any, legal: Any, reset: Any, key: Any = None) -> Any:
        wanted = jnp.full(len(obs), self.action)
        return carry, 50 * jax.nn.one_hot(wanted, self.rules.num_actions)


def test_actions_above_255_are_recorded() -> None:
    played = play_episodes((as_policy(Always(ManyActions(), 299)),) * 3, 4)
    assert played.actions.dtype == np.uint16
    for actions, length in zip(played.actions, played.lengths, strict=True):
        assert (actions[:length] == 299).all() and (actions[length:] == 0).all()


def test_plain_policies_play() -> None:
    plain = Always(Dice(), 0)
    played = play_episodes((plain, policy(0), plain), 4)
    assert (played.actions[:, :, [0, 2]] == 0).all() and played.actions[:, :, 1].any()


def test_lineups_average_their_seatings() -> None:
    lineup = (policy(0), policy(1), policy(1))
    result = evaluate_lineup(lineup, 40, seed=2)
    assert len(result.seatings) == 6  # three equal objects would be one policy
    assert result.summary.mean.mean == pytest.approx(np.mean([r.scores for r in result.records]))
    np.testing.assert_array_equal(
        result.records[1].actions, play_episodes(lineup, 40, 2, seating=result.seatings[1]).actions
    )
    pair = evaluate_pair(policy(0), policy(1), 40, seed=2)
    assert len(pair.seatings) == 3 and pair.summary.num_games == 120


def test_agent_at_each_seat_with_copies_of_partners() -> None:
    """As its own partner too, where every seat has the same games."""
    agent, partner = policy(0), policy(1)
    (others, own), _ = evaluate_with_partners(agent, [partner, agent], 40, seed=2)
    for seat, seating in enumerate([(0, 1, 2), (1, 2, 0), (2, 0, 1)]):
        played = play_episodes((agent, partner, partner), 40, 2, seating=seating)
        np.testing.assert_array_equal(others[seat], played.scores)
    np.testing.assert_array_equal(own, [play_episodes((agent,) * 3, 40, 2).scores] * 3)


def test_records_replay_games_of_chance() -> None:
    """A policy that is almost deterministic predicts its own seats, whatever the dice showed."""
    played = play_episodes(LINEUP, 40, seed=5)
    records = records_of(Dice(), played).select(range(3, 30))
    for seat in (0, 1):
        logits = record_logits(LINEUP[seat], records)[:, :, seat]
        wanted = records.is_played & (logits.max(axis=-1) > 10)  # its action is legal
        assert (logits.argmax(axis=-1) == records.actions[:, :, seat])[wanted].all()
        assert wanted.sum() > 30
    without = record_logits(LINEUP[0], dataclasses.replace(records, keys=None))[:, :, 0]
    wanted = records.is_played & (without.max(axis=-1) > 10)
    assert (without.argmax(axis=-1) != records.actions[:, :, 0])[wanted].any()
