"""Prediction of recorded moves by search, compared with the policy that it starts from.

    python benchmarks/search_prediction.py --data 3p_human_val_40.safetensors --agent agent:clone-3p

At every decision one search (the others modelled by the policy) estimates the gain of each move;
the curves over lambda and `doubt` follow from the gains. With some lambda, Jacob et al. (2022,
arXiv 2112.07544) predict humans better than with the policy alone. Prints cross-entropy (nats) and
accuracy per decision and their differences from the policy's, with intervals over games. The same
command resumes.
"""

import dataclasses
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import common

common.pin_one_core()
os.environ.pop("JAX_ENABLE_COMPILATION_CACHE")  # nothing is timed

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.search.config import SearchConfig
from hanabi_rl.agents.search.decision import Decision, regularized_logits
from hanabi_rl.agents.search.history import SearchCarry, update_carry
from hanabi_rl.agents.search.search_policy import SearchPolicy
from hanabi_rl.data.files import load_games
from hanabi_rl.data.games import Games
from hanabi_rl.evaluation.measure.intervals import bootstrap_ratio
from hanabi_rl.games.hanabi.observation import observe
from hanabi_rl.games.hanabi.replay import replay

LAMBDAS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
DOUBTS = (0.0, 1.0)
RECORDED = ("policy", "tried", "gain", "error", "effective")  # of every decision


@jax.jit
def look_around(
    agent: SearchPolicy, carry: SearchCarry, obs: jax.Array, first: jax.Array
) -> SearchCarry:
    """The carries [P] of all seats of one game after one more timestep."""
    return update_carry(agent.rules, agent.joint_spec, carry, obs, jnp.full(len(obs), first))


@jax.jit
def think(agent: SearchPolicy, carry: SearchCarry, seat: jax.Array) -> Decision:
    """What the search of one seat finds."""
    return agent.decide(jax.tree.map(lambda leaf: leaf[seat][None], carry))


def turns_of(
    agent: SearchPolicy, games: Games, index: int
) -> Iterator[tuple[int, SearchCarry, int]]:
    """(Number, carries of all seats, the mover's seat) of every turn of one game."""
    rules, players = games.rules, games.rules.num_players
    states = replay(rules, games.decks[index : index + 1], games.actions[index : index + 1]).state
    carry = agent.init_carry(players)
    for turn in range(int(games.num_actions[index])):
        obs = observe(rules, jax.tree.map(lambda leaf: leaf[turn], states))[0]  # noqa: B023
        carry = look_around(agent, carry, obs, turn == 0)
        yield turn, carry, turn % players


def search_game(agent: SearchPolicy, games: Games, index: int) -> dict[str, np.ndarray]:
    """The searches at every decision of one game that counts: leaves [decisions, ...]."""
    found, actions = [], []
    for turn, carry, seat in turns_of(agent, games, index):
        if games.human_seats is None or games.human_seats[index, seat]:
            thought = think(agent, carry, seat)._asdict()
            found.append({name: np.asarray(thought[name])[0] for name in RECORDED})
            actions.append(games.actions[index, turn])
    columns = {name: np.stack([each[name] for each in found]) for name in RECORDED}
    return columns | {"actions": np.array(actions)}


def judge(of_games: list[dict[str, np.ndarray]], settings: SearchConfig | None) -> np.ndarray:
    """float64[games, 3]: nats, right guesses, decisions; of the policy alone without settings."""
    rows = []
    for game in of_games:
        logits = jnp.asarray(game["policy"])
        if settings is not None:
            after = jax.vmap(lambda *of: regularized_logits(settings, *of))
            logits = after(logits, game["tried"], game["gain"], game["error"])
        chances = np.asarray(jax.nn.log_softmax(logits, axis=-1), np.float64)
        actions = game["actions"]
        nats = -chances[np.arange(len(actions)), actions].sum()
        rows.append((nats, (chances.argmax(axis=-1) == actions).sum(), len(actions)))
    return np.array(rows, np.float64)


def measure(
    data: str = "", agent: str = "agent:clone-3p", search: str = "fast", out: str = "runs/search"
) -> common.Record:
    """The curves. `search` is what follows `?search=`."""
    games = load_games(data)
    found = load_policy(f"{agent}?search={search}", games.rules)
    assert isinstance(found, SearchPolicy)
    folder = Path(out) / f"prediction_{agent}_{search}_{Path(data).stem}".replace(":", "-")
    folder.mkdir(parents=True, exist_ok=True)
    of_games = []
    for index in range(len(games)):
        file = folder / f"{index}.npz"
        if not file.exists():
            np.savez(file, **search_game(found, games, index))  # type: ignore[arg-type]
        with np.load(file) as columns:
            of_games.append(dict(columns))
        print(f"{index + 1} of {len(games)} games", file=sys.stderr)
    alone = judge(of_games, None)
    rows = [row_of("policy alone", alone, alone)]
    for doubt in DOUBTS:
        for lam in LAMBDAS:
            settings = dataclasses.replace(found.settings, lam=lam, gain_std_errors=doubt)
            rows.append(
                row_of(f"lambda {lam:g}, doubt {doubt:g}", judge(of_games, settings), alone)
            )
    print("| | nats | difference | accuracy | difference |\n|---|---|---|---|---|", file=sys.stderr)
    for row in rows:
        print("| " + " | ".join(map(str, row.values())) + " |", file=sys.stderr)
    tried = np.concatenate([(game["gain"] != 0).any(axis=1) for game in of_games])
    return {
        "games": len(games),
        "decisions": len(tried),
        "searched_and_differing": round(float(tried.mean()), 3),
        "rows": rows,
    }


def row_of(name: str, sums: np.ndarray, alone: np.ndarray) -> dict[str, str]:
    """One row of the table."""
    row = {"name": name}
    for column, what in enumerate(("nats", "accuracy")):
        for key, counted in ((what, sums), (f"{what}, difference", sums - alone)):
            row[key] = f"{bootstrap_ratio(counted[:, column], alone[:, 2]):.3f}"
    return row


if __name__ == "__main__":
    common.run(__doc__, measure)
