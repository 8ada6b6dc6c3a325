"""`check_env` accepts `HanabiEnv` and names the faults of broken environments."""

import jax.numpy as jnp
import pytest

from hanabi_rl.games.check import check_env
from hanabi_rl.games.hanabi import HanabiEnv, observation_slices

SMALL = dict(num_colors=3, num_ranks=3, hand_size=2, max_info_tokens=3, max_life_tokens=2)


class KeepsPointsOfLostGames(HanabiEnv):
    def step(self, env_state, action):
        after, timestep = super().step(env_state, action)
        return after, timestep.replace(reward=jnp.maximum(timestep.reward, 0))


class LosesDiscards(HanabiEnv):
    def step(self, env_state, action):
        after, timestep = super().step(env_state, action)
        return after.replace(
            game=after.game.replace(discards=after.game.discards.at[:, 0].set(0))
        ), timestep


class ShowsOwnHand(HanabiEnv):
    def observe(self, env_state):
        obs = super().observe(env_state)
        own_first_card = (env_state.game.hands[:, :, 0] & 1).astype(obs.dtype)
        return obs.at[:, :, observation_slices(self.rules)["last_outcome"].start].set(
            own_first_card
        )


class AllowsDiscardsAtFullTokens(HanabiEnv):
    def legal_actions(self, env_state):
        legal = super().legal_actions(env_state)
        seats = jnp.arange(self.rules.num_players) == env_state.game.player[:, None]
        return legal.at[:, :, 0].set(
            legal[:, :, 0] | (seats & (env_state.game.hands[:, :, 0] != 0))
        )


class ForgetsThatColorsAreAlike(HanabiEnv):
    def observe(self, env_state):
        return (
            super()
            .observe(env_state)
            .at[:, :, observation_slices(self.rules)["last_color"].start]
            .set(0)
        )


class StartsAgainWithCardsPlayed(HanabiEnv):
    def step(self, env_state, action):
        after, timestep = super().step(env_state, action)
        fireworks = jnp.where(timestep.done, env_state.game.fireworks, after.game.fireworks)
        return after.replace(game=after.game.replace(fireworks=fireworks)), timestep


@pytest.mark.parametrize(
    ("players", "game"), [(2, SMALL), pytest.param(3, {}, marks=pytest.mark.slow)]
)
def test_check_env_accepts_hanabi_env(players, game):
    check_env(HanabiEnv(players, **game), num_envs=32, steps=80, seed=players)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (KeepsPointsOfLostGames, r"^reward: step \d+, environment \d+: expected -\d\.0, got 0\.0"),
        (
            LosesDiscards,
            r"^copies of each card: step \d+, environment \d+ at \[\d\]: expected \d, got \d",
        ),
        (
            ShowsOwnHand,
            r"^observers of an exchanged hidden card: step 0, .* expected False, got True",
        ),
        pytest.param(
            AllowsDiscardsAtFullTokens,
            r"^legal moves: step 0, environment 0 at \[0, 0\]: expected False, got True",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ForgetsThatColorsAreAlike,
            r"^observation of renamed colours: step \d+",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            StartsAgainWithCardsPlayed,
            r"^copies of each card: step \d+, environment \d+",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_check_env_rejects_broken_environment(broken, message):
    with pytest.raises(AssertionError, match=message):
        check_env(broken(2, **SMALL), num_envs=32, steps=80)
