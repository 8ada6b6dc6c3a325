"""What thinking at the table is worth: the same decks with and without, seat for seat.

    python benchmarks/search.py --search fast --games 128 --out runs/search

One seat of an agent searches, taking the others to play as it does; who they really are is the
partner. The searching seat goes around the table from deck to deck. With `--seats all` the partner
searches as well. Prints a table of paired differences; the run may be stopped and goes on where it
was.
"""

import os
import sys
from pathlib import Path
from typing import Any

import common

common.pin_one_core()
os.environ.pop("JAX_ENABLE_COMPILATION_CACHE")  # only games after the first chunk are timed

import numpy as np

from hanabi_rl.agents.names import load_policy
from hanabi_rl.agents.policy import Policy
from hanabi_rl.measure.intervals import mean_interval
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games
from hanabi_rl.storage.files import read_json, write_json

PAIRS = (
    ("agent:hgroup-2p", "agent:hgroup-2p"),
    ("agent:clone-2p", "agent:clone-2p"),
    ("agent:convention-2p", "agent:convention-2p"),
    ("agent:human-3p-facts", "agent:human-3p-facts"),
    ("agent:convention-2p", "bot:convention"),
)
"""Agents and their partners; in the last pair the model of the partner is wrong."""
CHUNK = 16
DECKS = 31
"""The seed of the decks."""


def chunk_of_games(
    agents: tuple[Policy, Policy], partners: tuple[Policy, Policy], first: int, seed: int
) -> dict[str, Any]:
    """The games of `CHUNK` decks from number `first`, by the agent with a search and without, each
    beside its partner: scores, core seconds and the moves of the agent's seat."""
    rules = agents[0].rules
    decks = evaluation_decks(rules, first + CHUNK, seed)[first:]
    seat = (first + np.arange(CHUNK)) // rules.num_players % rules.num_players
    seating = (seat[:, None] + np.arange(rules.num_players)) % rules.num_players
    found: dict[str, Any] = {}
    for name, agent, partner in zip(("searching", "plain"), agents, partners, strict=True):
        team = (agent, *(partner,) * (rules.num_players - 1))
        began = common.core_seconds()
        games = play_games(team, rules, decks, seating=seating, chunk_size=CHUNK)
        found[f"{name}_seconds"] = common.core_seconds() - began
        found[name] = games.scores.tolist()
        turns = np.arange(rules.max_turns) % rules.num_players == seat[:, None]
        mine = turns & (np.arange(rules.max_turns) < games.num_actions[:, None])
        found[f"{name}_moves"] = int(mine.sum())
    return found


def play_pair(
    name: str, partner: str, search: str, games: int, out: Path, everybody: bool
) -> common.Record:
    """The row of one pair; its chunks are kept in `out`, and those that are there are not played
    again. What the process played first, which compiles, is not timed."""
    parts = (part.replace(":", "-").replace("/", "-") for part in (name, partner, search))
    out = out / "all" if everybody else out
    folder, compiled, chunks = out / "_".join(parts), False, []
    folder.mkdir(parents=True, exist_ok=True)
    plain = load_policy(name)
    agents = load_policy(f"{name}?search={search}"), plain
    other = load_policy(partner, plain.rules)
    thinking = load_policy(f"{partner}?search={search}", plain.rules) if everybody else other
    for first in range(0, games, CHUNK):
        file = folder / f"{first}.json"
        if not file.exists():
            chunk = chunk_of_games(agents, (thinking, other), first, DECKS)
            write_json(file, chunk | {"timed": compiled})
            compiled = True
        chunks.append(read_json(file))
        print(f"{name} with {partner}, {search}: {first + CHUNK} games", file=sys.stderr)
    return row_of(chunks) | {"agent": name, "partner": partner, "search": search}


def row_of(chunks: list[dict[str, Any]]) -> common.Record:
    """Paired figures of some chunks."""
    plain, searching = (
        np.concatenate([chunk[key] for chunk in chunks]).astype(float)
        for key in ("plain", "searching")
    )
    timed = [chunk for chunk in chunks if chunk["timed"]]
    seconds = sum(chunk["searching_seconds"] - chunk["plain_seconds"] for chunk in timed)
    moves = sum(chunk["searching_moves"] for chunk in timed)
    return {
        "games": len(plain),
        "plain": round(float(plain.mean()), 2),
        "with_search": round(float(searching.mean()), 2),
        "difference": f"{mean_interval(searching - plain)}",
        "zero": f"{np.mean(plain == 0):.1%} -> {np.mean(searching == 0):.1%}",
        "perfect": f"{np.mean(plain == 25):.1%} -> {np.mean(searching == 25):.1%}",
        "seconds_a_move": round(seconds / moves, 4) if moves else None,
    }


def measure(
    search: str = "fast",
    games: int = 128,
    agent: str = "",
    partner: str = "",
    seats: str = "one",
    out: str = "runs/search",
) -> common.Record:
    """The table, or with `agent` (and `partner`, else itself) the row of one pair. `search` is what
    follows `?search=`; `seats` is "one" or "all"."""
    if seats not in ("one", "all"):
        raise SystemExit(f"--seats {seats}: expected one or all")
    pairs = ((agent, partner or agent),) if agent else PAIRS
    rows = [play_pair(*pair, search, games, Path(out), seats == "all") for pair in pairs]
    heads = [key for key in rows[0] if key != "search"]
    heads = [*heads[-2:], *heads[:-2]]
    print("| " + " | ".join(heads).replace("_", " ") + " |", file=sys.stderr)
    print("|" + "---|" * len(heads), file=sys.stderr)
    for row in rows:
        print("| " + " | ".join(str(row[head]) for head in heads) + " |", file=sys.stderr)
    return {"rows": rows}


if __name__ == "__main__":
    common.run(__doc__, measure)
