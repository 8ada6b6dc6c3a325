"""Behaviour-preferring pairs: space of rewards, rewarded moves, learning."""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.games import TINY
from support.pairs import PAIRS
from support.small_ppo import make_ppo, small_rollout

from hanabi_rl.algorithms.behaviour_preferring import Snapshot, make_pair, mid_skill
from hanabi_rl.evaluation.measure.crossplay import evaluate_pair
from hanabi_rl.evaluation.measure.events import event_counts
from hanabi_rl.games.hanabi.events import EVENTS, detect_events
from hanabi_rl.learning import parallel
from hanabi_rl.learning.biased_rewards import (
    BiasedReward,
    EventWeights,
    biased_reward_space,
    sample_biased_rewards,
)
from hanabi_rl.learning.pairs import LearnerPair, PerLearner
from hanabi_rl.learning.rewards import HanabiShaping, Shaping
from hanabi_rl.learning.rollout import EpisodeSetup, TrainContext

NOTHING = (0.0,) * len(EVENTS)
events_of = jax.jit(jax.vmap(functools.partial(detect_events, TINY)))


@functools.partial(jax.jit, static_argnums=0)
def reward_of(shaping: Shaping, *args: Any) -> jax.Array:
    return shaping.reward(*args)


def preference(score_weight: float = 1.0, **weights: float) -> BiasedReward:
    listed = [weights.get(event, 0.0) for event in EVENTS]
    return BiasedReward(jnp.array(listed, jnp.float32), jnp.float32(score_weight), TINY)


def test_weight_space_has_203_points() -> None:
    assert tuple(field.name for field in dataclasses.fields(EventWeights)) == EVENTS
    assert [len(biased_reward_space(EventWeights(), max_events)) for max_events in (0, 1, 2)] == [
        1,
        21,
        203,
    ]
    space = biased_reward_space(EventWeights(), 2)
    assert len(set(space)) == 203 and space[0] == NOTHING
    assert max(np.count_nonzero(w) for w in space) == 2 and np.abs(space).max() == 1.0


def test_event_weights_match_table() -> None:
    """shared/reference/zsc-eval.md, 6.2."""
    both, wanted, strong = (-0.5, 0.5), (0.5,), (-1.0, 1.0)
    assert dataclasses.asdict(EventWeights()) == {
        **dict.fromkeys(("hint_color", "hint_rank", "discard_chop", "discard_many_tokens"), both),
        **dict.fromkeys(("hint_playable", "hint_save", "play_known"), wanted),
        "hint_repeated": (-0.5,),
        **dict.fromkeys(("play_blind", "play_after_hint", "play_newest", "discard_hinted"), strong),
        **dict.fromkeys(("misplay", "discard_last_copy"), ()),
    }


def test_preferences_are_seeded_without_replacement() -> None:
    def drawn(count: int, seed: int) -> list[Any]:
        return sample_biased_rewards(EventWeights(), 2, (0.5, 1.0), count, seed)

    assert len(set(drawn(406, 0))) == 406
    assert drawn(5, 1) == drawn(16, 1)[:5] != drawn(5, 2)
    with pytest.raises(ValueError, match="pairs: expected 1 to 406, the rewards there are"):
        drawn(407, 0)


def test_learner_reward_counts_own_moves_only(small: Any) -> None:
    ppo = make_ppo()
    rollout = small_rollout(ppo, small)
    timesteps, envs = rollout.transition.reward.shape
    learns = np.random.default_rng(0).random((timesteps, envs, 2)) < 0.5
    rollout = rollout.replace(episode=EpisodeSetup(is_learner=learns))
    action, reward = jax.jit(ppo.joint_actions)(rollout), rollout.transition.reward
    start = np.float32(0)
    wanted = preference(0.5, hint_color=0.5, misplay=-1.0)
    paid = np.asarray(reward_of(HanabiShaping(), rollout, action, start, wanted))
    expected = 0.5 * np.asarray(reward)
    found, player = np.asarray(events_of(rollout.state, action)), np.asarray(rollout.state.player)
    for t in range(timesteps):
        for e in range(envs):
            if learns[t, e, player[t, e]]:
                expected[t, e] += 0.5 * found[t, e, EVENTS.index("hint_color")]
                expected[t, e] -= found[t, e, EVENTS.index("misplay")]
    np.testing.assert_allclose(paid, expected, atol=1e-6)
    everyone = rollout.replace(episode=EpisodeSetup())
    assert not np.allclose(reward_of(HanabiShaping(), everyone, action, start, wanted), paid)


def test_team_events_reward_all_moves(small: Any) -> None:
    """The sum of `rewards.py`, term by term: u times all team rewards, plus phi."""
    shaping = HanabiShaping(keep_points=True, life_cost=0.5, teaming_weight=0.3, g2_weight=-0.25)
    ppo = make_ppo()
    rollout = small_rollout(ppo, small)
    no_seat = np.zeros((*rollout.transition.reward.shape, 2), bool)
    rollout = rollout.replace(episode=EpisodeSetup(is_learner=no_seat))
    move, start = jax.jit(ppo.joint_actions)(rollout), np.float32(0)
    team = np.asarray(reward_of(shaping, rollout, move, start))
    assert np.abs(team - rollout.transition.reward).max() > 0.2
    wanted = preference(0.5, hint_color=0.5)
    paid = reward_of(shaping, rollout, move, start, wanted)
    np.testing.assert_allclose(paid, 0.5 * team, atol=1e-6)  # no seat is the learner's
    mine = rollout.replace(episode=EpisodeSetup(is_learner=~no_seat))
    hints = np.asarray(events_of(rollout.state, move))[..., EVENTS.index("hint_color")]
    paid = reward_of(shaping, mine, move, start, wanted)
    np.testing.assert_allclose(paid, 0.5 * team + 0.5 * hints, atol=1e-6)


class Trained(NamedTuple):
    pair: LearnerPair
    update: Any
    learners: PerLearner
    actors: PerLearner


@pytest.fixture(scope="module")
def pair() -> Trained:
    made = make_pair(PAIRS)
    learners, actors = zip(*jax.jit(made.init)(jax.random.key(0)), strict=True)
    return Trained(made, made.compile_update(), PerLearner(*learners), PerLearner(*actors))


def started(pair: Trained) -> tuple[PerLearner, PerLearner]:
    """Copies, because an update may reuse its buffers."""
    learners, actors = jax.tree.map(jnp.copy, (pair.learners, pair.actors))
    return parallel.replicate(learners), parallel.shard(actors)


def test_two_learners_start_differently(pair: Trained) -> None:
    """Different parameters, decks and samples: with one key both would be equal."""
    kernels = [
        max(jax.tree.leaves(learner.params["actor"]), key=jnp.size) for learner in pair.learners
    ]
    assert not np.allclose(*kernels)
    keys = [jax.random.key_data(learner.key) for learner in pair.learners]
    assert not np.array_equal(*keys)
    decks = [np.asarray(actors.env.game.deck) for actors in pair.actors]
    assert not np.array_equal(*decks)


@pytest.mark.slow  # compiles a second update
def test_unbiased_update_is_plain_ppo(pair: Trained) -> None:
    learned, _, metrics = pair.update(*started(pair), preference())
    learners, actors = started(pair)
    partner = parallel.replicate(pair.pair.policy(pair.learners.response))
    plain, _, expected = pair.pair.biased.compile_update()(
        learners.biased, actors.biased, TrainContext(partners=partner)
    )
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6),
        learned.biased.params,
        plain.params,
    )
    found = metrics.biased
    assert float(found["train_games"]) == float(expected["train_games"]) > 0
    assert float(found["partner_seats"]) == float(metrics.response["partner_seats"]) == 1.0


@pytest.mark.slow  # learns
def test_preferred_event_becomes_more_frequent(pair: Trained) -> None:
    """Rank hints, each of which gives its own player half a point: if the response or all were
    rewarded, it would give as many."""
    learners, actors = started(pair)
    for _ in range(60):
        learners, actors, _ = pair.update(learners, actors, preference(hint_rank=0.5))
    biased, response = (pair.pair.policy(parallel.fetch(learner)) for learner in learners)
    played = evaluate_pair(response, biased, 200)
    place = EVENTS.index("hint_rank")
    hints = np.array([event_counts(games).mean(axis=0)[:, place] for games in played.records])
    of_response = np.mean([hints[s][seating[0]] for s, seating in enumerate(played.seatings)])
    of_biased = np.mean([hints[s][seating[1]] for s, seating in enumerate(played.seatings)])
    assert of_biased > 1.5 * of_response and of_biased > 1.0


def test_mid_skill_checkpoint_scores_nearest_half() -> None:
    taken = [Snapshot(u, score, None) for u, score in enumerate((0.5, 1.75, 2.25, 3.5, 4.0))]  # type: ignore[arg-type]
    assert mid_skill(taken).update == 1  # 1.75 and 2.25 are as near to 2.0: the earlier
    assert mid_skill(taken[:1]).update == 0


@pytest.mark.parametrize("players", [2, 3, 4])
def test_pair_training_matches_evaluation_lineup(players: int) -> None:
    """One seat is the response's, all others the biased learner's, for any number of players, as in
    `evaluation/measure/partner_set.py` and in training of best responses."""
    game = dataclasses.replace(TINY, num_players=players)
    made = make_pair(dataclasses.replace(PAIRS, game=game))
    held = {}
    for role, learner in made.__dict__.items():
        keys = jax.random.split(jax.random.key(0), 200)
        drawn = jax.vmap(lambda key, of=learner: of.sample_episode(key, jnp.float32(0)).is_learner)(
            keys
        )
        held[role] = np.asarray(drawn)
        seats = {"biased": players - 1, "response": 1}[role]
        assert (held[role].sum(axis=1) == seats).all() and held[role].any(axis=0).all()
        assert learner.learner_fraction == pytest.approx(seats / players)
    np.testing.assert_array_equal(held["biased"], ~held["response"])  # same keys
