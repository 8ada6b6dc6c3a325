"""Profiles preloaded from recorded games."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import ask, init_params, legal_actions, observe
from support.games import TINY, TINY_3P, random_games

from hanabi_rl.agents.identity import agent_hash
from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import NetworkPolicy, Policy, next_game
from hanabi_rl.agents.policy_file import write_file
from hanabi_rl.agents.preloaded_profile import has_profile, profile_counts
from hanabi_rl.agents.structured.profile import COUNTS
from hanabi_rl.agents.structured.profile_from_games import player_counts
from hanabi_rl.data.files import save_games
from hanabi_rl.data.games import Games
from hanabi_rl.games.hanabi.replay import replay
from hanabi_rl.nn.structured_network import StructuredConfig

READER = StructuredConfig(trunk=(8,), head=8, card=(8,), profile=True)
HINT, TURN = (list(COUNTS).index(name) for name in ("hint", "turn"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An agent with a profile, one without, and 2-player games."""
    path = tmp_path_factory.mktemp("knowing")
    for name, network in (
        ("reader", READER),
        ("blind", dataclasses.replace(READER, profile=False)),
    ):
        params = init_params(TINY, network, jax.random.key(2))
        write_file(path / f"{name}.safetensors", NetworkPolicy(params, TINY, network), {})
    save_games(path / "games.safetensors", recorded())
    return path


def recorded() -> Games:
    return random_games(TINY, 6, seed=4)


def counted(games: Games, seats: list[int]) -> tuple[int, int]:
    """Hints and turns of these seats in all moves but each game's last, from the actions alone."""
    hints = turns = 0
    for game in range(len(games)):
        for turn, action in enumerate(games.moves(game)[:-1]):
            if turn % games.rules.num_players in seats:
                turns += 1
                hints += int(action) >= 2 * games.rules.hand_size
    return hints, turns


def test_profile_is_of_named_seat() -> None:
    """Default: the human seats, or every seat if none is marked."""
    games = recorded()
    human = np.zeros((6, 2), bool)
    human[:, 0] = True
    marked = dataclasses.replace(games, human_seats=human)
    for found, seats in (
        (profile_counts(games), [0, 1]),
        (profile_counts(games, 1), [1]),
        (profile_counts(marked), [0]),
        (profile_counts(marked, 1), [1]),
    ):
        own, partner = found[:, [HINT, TURN]]
        assert tuple(partner) == counted(games, seats) and not own.any()
    three = random_games(TINY_3P, 3, seed=1)
    own, *others = profile_counts(three, 2)[:, [HINT, TURN]]
    assert [tuple(row) for row in others] == [counted(three, [2])] * 2 and not own.any()
    with pytest.raises(ValueError, match="expected a seat from 0 to 1, got 2"):
        profile_counts(games, 2)


def test_has_profile_detects_networks_with_profile(folder: Path) -> None:
    reader = load_policy(str(folder / "reader.safetensors"))
    assert has_profile(reader) and has_profile(
        load_policy(f"{folder / 'reader.safetensors'}?temperature=2")
    )
    preloaded = load_policy(
        f"{folder / 'reader.safetensors'}?partner_games={folder / 'games.safetensors'}"
    )
    assert has_profile(preloaded)
    assert not has_profile(load_policy(str(folder / "blind.safetensors")))
    assert not has_profile(load_policy("bot:simple", TINY))


@pytest.mark.slow  # test_profile.py tests the counts of play
def test_play_adds_to_preloaded_counts(folder: Path) -> None:
    """Seat 1 of another game, its beginning, another game with the same partner, and a new partner,
    which starts with the profile of the games."""
    policy = load_policy(f"{folder}/reader.safetensors?partner_games={folder}/games.safetensors,0")
    preloaded = profile_counts(recorded(), 0)
    games = random_games(TINY, 6, seed=9)
    played = jax.device_get(replay(TINY, games.decks, games.actions).state)

    def turn(carry: Any, turn: int, new: bool, agent: Policy = policy) -> Any:
        state = jax.tree.map(lambda x: x[turn, :1], played)
        obs, legal = (np.asarray(see(TINY, state))[:, 1] for see in (observe, legal_actions))
        return ask(agent, carry, obs, legal, np.array([new]))

    carry, counts, last = policy.init_carry(1), player_counts(games)[0, ::-1], games.num_actions[0]
    np.testing.assert_array_equal(carry.profile.counts[0], preloaded)
    for t in range(last):
        carry, logits = turn(carry, t, t == 0)
        if t == 1:
            mine = logits
    np.testing.assert_array_equal(carry.profile.counts[0], preloaded + counts)
    carry = next_game(policy, carry, jnp.array([True]))
    np.testing.assert_array_equal(carry.profile.counts[0], preloaded + counts)
    carry, _ = turn(carry, 0, True)
    np.testing.assert_array_equal(carry.profile.counts[0], preloaded)
    _, again = turn(carry, 1, False)
    np.testing.assert_array_equal(again, mine)
    blank = policy.replace(counts=0 * preloaded)
    carry, _ = turn(blank.init_carry(1), 0, True, blank)
    _, before = turn(carry, 1, False, blank)
    assert np.abs(np.asarray(before) - np.asarray(mine)).max() > 1e-4


def test_preloaded_profile_changes_identity(folder: Path) -> None:
    """The profile is part of the identity, and other wrappers can be applied before it."""
    names = [
        f"{folder}/reader.safetensors{option}"
        for option in (
            "",
            f"?partner_games={folder}/games.safetensors",
            f"?partner_games={folder}/games.safetensors,1",
            f"?temperature=2&partner_games={folder}/games.safetensors",
        )
    ]
    policies = [load_policy(name) for name in names]
    assert len({policy.identity() for policy in policies}) == 4
    preloaded = profile_counts(recorded())
    description = {"wrapper": "knowing", "of": policies[0].identity()}
    assert policies[1].identity() == agent_hash(description, preloaded)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "{f}/blind.safetensors?partner_games={f}/games.safetensors",
            "got a NetworkPolicy without a profile$",
        ),
        (
            "bot:random?partner_games={f}/games.safetensors",
            "with --network.profile.*, got a RandomBot",
        ),
        (
            "{f}/reader.safetensors?partner_games={f}/games.safetensors,2",
            "expected a seat from 0 to 1, got",
        ),
        (
            "{f}/reader.safetensors?partner_games={f}/games.safetensors,x",
            "partner_games: expected a file of games, ",
        ),
        ("{f}/reader.safetensors?partner_games={f}/games.safetensors,0,1", "FILE,SEAT; got .*,0,1"),
        (
            "{f}/reader.safetensors?partner_games={f}/three.safetensors",
            "expected games of 2 players, got 3 players$",
        ),
        (
            "{f}/reader.safetensors?partner_games={f}/none.safetensors",
            "expected a file of games, got .*none.safetensors, which does",
        ),
    ],
)
def test_what_is_refused(name: str, message: str, folder: Path) -> None:
    if not (three := folder / "three.safetensors").exists():
        save_games(three, random_games(TINY_3P, 2))
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        load_policy(name.format(f=folder))
