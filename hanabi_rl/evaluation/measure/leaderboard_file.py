"""Leaderboard as a file that others extend: proxies, decks, and one row per candidate.

Examples are `docs/leaderboard/*.json`. Every candidate plays the same games, which the file
specifies; a row names an agent that anyone can load.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

from hanabi_rl.agents.hub import parse_hub_name
from hanabi_rl.agents.loading import BOT, BUNDLED, HUB, LOADERS, parse_name
from hanabi_rl.evaluation.measure.leaderboard import LeaderboardEntry
from hanabi_rl.storage.dataclass_io import from_dict, to_dict
from hanabi_rl.storage.files import read_json, write_json
from hanabi_rl.storage.renamed_fields import current_name

FORMAT_VERSION = 2
_RENAMED_IN_2 = {"by": "submitted_by", "zero_share": "zero_rate", "perfect_share": "perfect_rate"}
_HASH = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclasses.dataclass(frozen=True)
class LeaderboardAgent:
    """Agent that anyone can load."""

    agent: str = ""
    """Agent name: `bot:`, `agent:`, `ah2ac2:`, `obl:`, or `hf:` at a commit."""
    hash: str = ""
    """Identity, a SHA-256."""


@dataclasses.dataclass(frozen=True)
class LeaderboardRow(LeaderboardAgent):
    """Games of a candidate with the proxies, one deck each, in every mixed lineup."""

    submitted_by: str = ""
    """Name of the submitter."""
    version: str = ""
    """Version of hanabi_rl that played the games."""
    mean: float = 0.0
    ci95: tuple[float, ...] = ()
    """[low, high]."""
    median: float = 0.0
    zero_rate: float = 0.0
    perfect_rate: float = 0.0


@dataclasses.dataclass(frozen=True)
class LeaderboardFile:
    """Settings common to all rows, and the rows, best first."""

    format_version: int = 0
    about: str = ""
    players: int = 0
    games: int = 0
    """Games per candidate."""
    seed: int = 0
    """Seed of the decks."""
    proxies: tuple[LeaderboardAgent, ...] = ()
    rows: tuple[LeaderboardRow, ...] = ()


def read_board(path: Path) -> LeaderboardFile:
    """Read and validate the leaderboard in `path`, format 1 or 2; plays no game and loads no agent.
    Raises ValueError, which names the file, the row, the expected and the actual value."""
    data = read_json(path)
    if not isinstance(data, dict):
        raise ValueError(f"{path}: expected an object, got {type(data).__name__}")
    if data.get("format_version") == 1:
        data = _from_format_1(data)
    data = {
        **data,
        "proxies": tuple(
            _record(LeaderboardAgent, p, f"{path}: proxies") for p in data.get("proxies", ())
        ),
        "rows": tuple(
            _record(LeaderboardRow, row, f"{path}: rows") for row in data.get("rows", ())
        ),
    }
    if missing := {field.name for field in dataclasses.fields(LeaderboardFile)} - set(data):
        raise ValueError(f"{path}: expected a field {min(missing)}, got none")
    players = {"proxies": data.pop("proxies"), "rows": data.pop("rows")}
    board = dataclasses.replace(from_dict(LeaderboardFile, data, where=str(path)), **players)
    _check(board, str(path))
    return board


def write_board(path: Path, board: LeaderboardFile) -> None:
    """Write `board` to `path` atomically; raises ValueError as `read_board` does."""
    _check(board, str(path))
    record = to_dict(board)
    record["proxies"] = [to_dict(proxy) for proxy in board.proxies]
    record["rows"] = [to_dict(row) for row in board.rows]
    write_json(path, record)


def with_row(board: LeaderboardFile, row: LeaderboardRow) -> LeaderboardFile:
    """`board` with `row` added, replacing a row of the same identity."""
    others = [other for other in board.rows if other.hash != row.hash]
    rows = tuple(sorted([*others, row], key=lambda row: (-row.mean, row.agent)))
    return dataclasses.replace(board, rows=rows)


def row_of(
    entry: LeaderboardEntry, agent: str, identity: str, submitted_by: str, version: str
) -> LeaderboardRow:
    """Leaderboard row of a candidate's games."""
    summary = entry.summary
    return LeaderboardRow(
        agent=agent,
        hash=identity,
        submitted_by=submitted_by,
        version=version,
        mean=round(summary.mean.mean, 3),
        ci95=tuple(round(float(bound), 3) for bound in summary.mean.bounds),
        median=float(summary.median),
        zero_rate=round(summary.zero_rate, 4),
        perfect_rate=round(summary.perfect_rate or 0.0, 4),
    )


def _from_format_1(data: dict[str, Any]) -> dict[str, Any]:
    def renamed(agent: Any) -> Any:
        if not isinstance(agent, dict):
            return agent
        agent = {_RENAMED_IN_2.get(key, key): value for key, value in agent.items()}
        return agent | {"agent": current_name(str(agent.get("agent", "")))}

    lists = {key: list(map(renamed, data.get(key, ()))) for key in ("proxies", "rows")}
    return {**data, "format_version": 2, **lists}


def _record(cls: type[Any], data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise ValueError(f"{where}: expected objects, got {type(data).__name__}")
    where = f"{where}: {data.get('agent', 'unnamed agent')}"
    if missing := {field.name for field in dataclasses.fields(cls)} - set(data):
        raise ValueError(f"{where}: expected a field {min(missing)}, got none")
    return from_dict(cls, data, where=where)


def _check(board: LeaderboardFile, where: str) -> None:
    def expect(holds: bool, expected: str, got: Any) -> None:
        if not holds:
            raise ValueError(f"{where}: expected {expected}, got {got}")

    version = board.format_version
    expect(version == FORMAT_VERSION, f"format_version {FORMAT_VERSION}", version)
    expect(2 <= board.players <= 5, "2 to 5 players", board.players)
    expect(board.games >= 1000, "at least 1,000 games per row", board.games)
    expect(len(board.proxies) >= 1, "at least one proxy", 0)
    for player in (*board.proxies, *board.rows):
        check_public(player.agent, where)
        expect(
            _HASH.fullmatch(player.hash) is not None,
            f"the SHA-256 of {player.agent}",
            repr(player.hash),
        )
    for row in board.rows:
        at = f"of {row.agent}"
        expect(len(row.ci95) == 2, f"ci95 {at} to be [low, high]", row.ci95)
        low, high = row.ci95
        expect(
            0 <= low <= row.mean <= high <= 25, f"a mean {at} in its interval", (row.mean, row.ci95)
        )
        rates = (row.zero_rate, row.perfect_rate)
        expect(min(rates) >= 0 and sum(rates) <= 1, f"rates {at} from 0 to 1", rates)
        expect(0 <= row.median <= 25, f"a median {at} from 0 to 25", row.median)
        expect(bool(row.submitted_by.strip()), f"submitted_by {at}", repr(row.submitted_by))
        expect(bool(row.version), f"the version that played {row.agent}", repr(row.version))
    hashes = [player.hash for player in (*board.proxies, *board.rows)]
    duplicate = next((one for one in hashes if hashes.count(one) > 1), None)
    expect(duplicate is None, "each agent once, and no proxy in the rows", f"{duplicate} twice")
    means = [row.mean for row in board.rows]
    expect(means == sorted(means, reverse=True), "rows in descending order of mean", means)


def check_public(name: str, where: str) -> None:
    """Raise ValueError, prefixed by `where`, for a path, or `hf:` without a commit."""
    parsed = parse_name(name)
    local = parsed.scheme not in (BOT, *LOADERS) or (
        parsed.scheme not in (BOT, BUNDLED, HUB) and Path(parsed.path).exists()
    )
    if local:
        raise ValueError(
            f"{where}: expected an agent that anyone can load (bot:, agent:, ah2ac2:, obl: or "
            f"hf:OWNER/NAME@COMMIT), got {name}"
        )
    if parsed.scheme == HUB:
        revision = parse_hub_name(parsed.without_options).revision
        if revision is None or not _COMMIT.fullmatch(revision):
            raise ValueError(
                f"{where}: expected a commit of 40 hexadecimal digits after "
                f"{name.split('@')[0]}@, got {revision}"
            )
