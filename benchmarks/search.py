"""Gain of search: the same decks with and without it, seat for seat.

    python benchmarks/search.py --search fast --games 128 --out runs/search

One seat of an agent searches and models the others as itself, or as `partner=` in `--search`. The
actual partners are `--partner`, for several seats `A+B` (the agent's next neighbour alternates from
deck to deck). The searching seat rotates. With `--seats all` all seats of the agent search. The run
can be stopped, ends before `--seconds`, and resumes. `--first` is the number of the first deck, so
that several processes can divide the decks of a comparison: each reads the others' chunks in
`--out`. With `--games 0` nothing is played, and the table covers all of `--out`, filtered by
`--agent` and `--partner A,B`.
"""

import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import common

common.pin_one_core()
os.environ.pop("JAX_ENABLE_COMPILATION_CACHE")  # only games after the first chunk are timed

import numpy as np

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import Policy
from hanabi_rl.evaluation.measure.intervals import mean_interval
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.demos import players_of
from hanabi_rl.play.episodes import play_games
from hanabi_rl.storage.files import read_json, write_json

BEGAN = time.monotonic()


class Question(NamedTuple):
    """What one row of the table answers."""

    agent: str
    partner: str
    search: str
    """What follows `?search=`."""
    seats: str
    """ "one" or "all"."""

    @property
    def folder(self) -> str:
        """Where its chunks are, in letters that any archive takes."""
        return "_".join(re.sub(r"[^\w.+-]", "-", part) for part in self)


PAIRS = (
    ("agent:hgroup-2p", "agent:hgroup-2p"),
    ("agent:clone-2p", "agent:clone-2p"),
    ("agent:convention-2p", "agent:convention-2p"),
    ("agent:human-3p-facts", "agent:human-3p-facts"),
    ("agent:convention-2p", "bot:convention"),
)
"""Agents and their partners; in the last pair the model of the partner is wrong."""
DECKS = 31
"""The seed of the decks."""
Scores = dict[int, tuple[int, int]]
"""Deck -> the scores without and with a search."""
USUAL = "fast"
"""The search that others are compared with, deck by deck; in one seat."""


def teams(question: Question) -> dict[str, tuple[Policy, ...]]:
    """Who plays: the agent and the others, with searches and without."""
    plain = load_policy(question.agent)
    thinking = load_policy(f"{question.agent}?search={question.search}")
    names = players_of(question.partner)
    if len(names) == 1:
        names *= plain.rules.num_players - 1
    if len(names) != plain.rules.num_players - 1:
        raise SystemExit(f"--partner {question.partner}: expected one, or one for each other seat")
    strangers = {name: load_policy(name, plain.rules) for name in names if name != question.agent}
    others = [strangers.get(name, plain) for name in names]
    searching = [thinking if other is plain else other for other in others]
    return {
        "searching": (thinking, *(searching if question.seats == "all" else others)),
        "plain": (plain, *others),
    }


def chunk_of_games(
    who: dict[str, tuple[Policy, ...]], first: int, count: int, seed: int
) -> dict[str, Any]:
    """The games of `count` decks from number `first` of each team: scores, core seconds and the
    moves of those who play as the first of the team does."""
    rules = who["plain"][0].rules
    players = rules.num_players
    decks = evaluation_decks(rules, first + count, seed)[first:]
    number = first + np.arange(count)
    seat = number // players % players
    after = np.arange(players)
    backwards = (number // players**2 % 2 == 1)[:, None]  # the others sit the other way round
    seating = (seat[:, None] + np.where(backwards, -after, after)) % players
    found: dict[str, Any] = {}
    for name, team in who.items():
        began = common.core_seconds()
        games = play_games(team, rules, decks, seating=seating, chunk_size=count)
        found[f"{name}_seconds"] = common.core_seconds() - began
        found[name] = games.scores.tolist()
        turn = np.arange(rules.max_turns)
        theirs = seating[:, [policy is team[0] for policy in team], None]
        mine = np.any(turn % players == theirs, axis=1) & (turn < games.num_actions[:, None])
        found[f"{name}_moves"] = int(mine.sum())
    return found


def play(question: Question, decks: range, chunk: int, seconds: float, out: Path) -> None:
    """Plays the chunks of a question that are not in `out` yet, until `seconds` after the start of
    the process would be over. What the process plays first, which compiles, is not timed."""
    folder, who, took = out / question.folder, None, 0.0
    folder.mkdir(parents=True, exist_ok=True)
    for first in decks[::chunk]:
        file, began = folder / f"{first}.json", time.monotonic()
        if file.exists():
            continue
        if seconds and began - BEGAN + took > seconds:
            break
        timed, who = who is not None, who or teams(question)
        found = chunk_of_games(who, first, chunk, DECKS)
        write_json(file, question._asdict() | found | {"timed": timed})
        took = time.monotonic() - began if timed else 0.0
        print(f"{question.folder}: {first + chunk} games", file=sys.stderr)


def chunks_in(folder: Path) -> dict[int, dict[str, Any]]:
    """What was played of a question, by the number of its first deck."""
    files = sorted(folder.glob("*.json"), key=lambda file: int(file.stem))
    return {int(file.stem): read_json(file) for file in files}


def scores_of(chunks: dict[int, dict[str, Any]]) -> Scores:
    """The scores of some chunks."""
    return {
        first + i: scores
        for first, chunk in chunks.items()
        for i, scores in enumerate(zip(chunk["plain"], chunk["searching"], strict=True))
    }


def row_of(question: Question, chunks: dict[int, dict[str, Any]], usual: Scores) -> common.Record:
    """Paired figures of some chunks; `usual` are the scores with the search `USUAL`."""
    scores = scores_of(chunks)
    timed = [chunk for chunk in chunks.values() if chunk["timed"]]
    seconds = sum(chunk["searching_seconds"] - chunk["plain_seconds"] for chunk in timed)
    moves = sum(chunk["searching_moves"] for chunk in timed)
    return question._asdict() | {
        **figures(*np.array(list(scores.values()), float).T[..., None]),
        f"more_than_{USUAL}": more_than_usual(question, [scores], [usual]),
        "seconds_a_move": round(seconds / moves, 4) if moves else "",
    }


def more_than_usual(question: Question, each: list[Scores], usual: list[Scores]) -> str:
    """What a search has more than `USUAL`, partner by partner, on the decks that all of them played
    with both."""
    decks = sorted(set.intersection(*[set(scores) for scores in each + usual]))
    if (question.search, question.seats) == (USUAL, "one") or not decks:
        return ""
    pairs = list(zip(each, usual, strict=True))
    more = [np.mean([ours[deck][1] - theirs[deck][1] for ours, theirs in pairs]) for deck in decks]
    return f"{mean_interval(np.array(more)):+.2f}, {len(decks) * len(pairs)} games"


def pooled(question: Question, each: list[Scores], usual: list[Scores]) -> common.Record:
    """The row of an agent with several partners, who count alike, on the decks that all of them
    played."""
    decks = sorted(set.intersection(*[set(scores) for scores in each]))
    scores = np.array([[of_one[deck] for of_one in each] for deck in decks], float)
    row = question._replace(partner=f"{len(each)} strangers")._asdict()
    more = {f"more_than_{USUAL}": more_than_usual(question, each, usual)}
    return row | figures(*np.moveaxis(scores, 2, 0)) | more


def figures(plain: np.ndarray, searching: np.ndarray) -> common.Record:
    """Of scores float[decks, partners]; intervals are over decks."""
    return {
        "games": plain.size,
        "plain": round(float(plain.mean()), 2),
        "with_search": round(float(searching.mean()), 2),
        "difference": f"{mean_interval((searching - plain).mean(axis=1)):+.2f}",
        "zero": f"{np.mean(plain == 0):.1%} -> {np.mean(searching == 0):.1%}",
        "perfect": f"{np.mean(plain == 25):.1%} -> {np.mean(searching == 25):.1%}",
    }


def rows_of(out: Path, wanted: Callable[[Question], bool]) -> list[common.Record]:
    """The rows of the wanted questions that were played, and of agents with all their strangers."""
    played = {}
    for folder in sorted(out.iterdir()):
        chunks = chunks_in(folder)
        if chunks:
            some = next(iter(chunks.values()))
            played[Question(*(some[name] for name in Question._fields))] = chunks
    scores = {question: scores_of(chunks) for question, chunks in played.items()}

    def usual(question: Question) -> Scores:
        return scores.get(question._replace(search=USUAL, seats="one"), {})

    shown = [question for question in played if wanted(question)]
    strangers: dict[Question, list[Question]] = {}
    for question in shown:
        if question.agent not in question.partner:
            strangers.setdefault(question._replace(partner=""), []).append(question)
    return [row_of(question, played[question], usual(question)) for question in shown] + [
        pooled(group, [scores[one] for one in each], [usual(one) for one in each])
        for group, each in strangers.items()
        if len(each) > 1
    ]


def print_table(rows: list[common.Record]) -> None:
    """The rows as Markdown, on stderr; columns without anything are left out."""
    heads = [head for head in rows[0] if any(row[head] != "" for row in rows)]
    print("| " + " | ".join(heads).replace("_", " ") + " |", file=sys.stderr)
    print("|" + "---|" * len(heads), file=sys.stderr)
    for row in rows:
        print("| " + " | ".join(str(row.get(head, "")) for head in heads) + " |", file=sys.stderr)


def measure(
    search: str = USUAL,
    games: int = 128,
    agent: str = "",
    partner: str = "",
    seats: str = "one",
    first: int = 0,
    chunk: int = 16,
    seconds: float = 0.0,
    out: str = "runs/search",
) -> common.Record:
    """The table, or with `agent` (and `partner`, else itself) the row of one pair."""
    if seats not in ("one", "all"):
        raise SystemExit(f"--seats {seats}: expected one or all")
    pairs = ((agent, partner or agent),) if agent else PAIRS
    questions = [Question(*pair, search, seats) for pair in pairs] if games else []
    for question in questions:
        play(question, range(first, first + games), chunk, seconds, Path(out))

    def wanted(question: Question) -> bool:
        if games:
            return question in questions
        partners = partner.split(",") if partner else [question.partner]
        return agent in ("", question.agent) and question.partner in partners

    rows = rows_of(Path(out), wanted)
    if rows:
        print_table(rows)
    return {"rows": rows}


if __name__ == "__main__":
    common.run(__doc__, measure)
