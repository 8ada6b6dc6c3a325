"""Bot accounts and scripted players at a misbehaving fake hanab.live (`tests/support/live_*`).

Counts lost, duplicate and late messages. `--transcript` prints the messages of one game of one bot
instead.

    python benchmarks/live_games.py --people 25 --games 20
    python benchmarks/live_games.py --transcript
"""

import argparse
import json
import sys
import time
from collections import deque
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.live_site import LIMIT, WINDOW_S, Faults, Site
from support.live_world import BotPeer, Person, World, cautious

from hanabi_rl.people.live.bot import LiveBot
from hanabi_rl.people.live.effects import BotSettings

BOTS = ("Bot-a", "Bot-b")
SEED = 6
"""Of the transcript in docs/: among the first sixty, one of the shortest games."""
FAULTS = Faults(
    drop=0.003,
    refuse=0.03,
    chatter=0.2,
    late=0.2,
    swallow=0.01,
    terminate=0.002,
    history=0.3,
    export=0.4,
)
FORBIDDEN = (
    "stale actions",
    "actions after the end",
    "actions in a pause",
    "illegal actions",
    "long chats",
    "banned",
)


def play(people: int, games: int, seed: int, faults: Faults, seats: int = 3) -> dict[str, object]:
    """`people` persons play `games` games each with two bots; the server restarts twice."""
    site = Site(seed, faults)
    world = World(site, seed)
    settings = BotSettings("a scripted agent", frozenset({2, 3, 4, 5}), tables=people)
    bots = [BotPeer(world, LiveBot(n, settings), cautious(seed + i)) for i, n in enumerate(BOTS)]
    everybody = [Person(world, f"p{n}", list(BOTS), games, seats) for n in range(people)]
    for peer in (*bots, *everybody):
        world.add(peer)
    restarts = [100.0, 300.0]

    def over() -> bool:
        if restarts and world.now > restarts[0]:
            restarts.pop(0)
            site.restart()
        done = len(site.games) >= people * games
        return done and not any(not bot.bot.is_idle or bot.queue or bot.out for bot in bots)

    world.run(over, seconds=60.0 * games * 60)
    kept, wrong = 0, 0
    for bot in bots:
        for ended in bot.ended:
            assert ended.game is not None
            referee = site.games[ended.game.game_id].table
            assert referee is not None
            kept += 1
            wrong += list(ended.game.moves) != referee.actions
            wrong += list(ended.game.deck) != referee.deck
    # a bot whose connection is lost before the start does not sit in the game
    seats = sum(name in game.players for game in site.games.values() for name in BOTS)
    looked_up = sum("recovered from replay" in text for bot in bots for text in bot.noted)
    return {
        "games": len(site.games),
        "ended by condition": {k: v for k, v in site.counts.items() if k.startswith("ended")},
        "frames to the server": site.counts["messages"],
        "moves": site.counts["actions"],
        "connections dropped": site.counts["drops"],
        "restarts": site.counts["restarts"],
        "moves refused for no reason": site.counts["refusals"],
        "moves swallowed": site.counts["swallowed"],
        "kept games (of two bots)": kept,
        "of those, from the history, as the bot was away at the end": looked_up,
        "not kept": seats - kept,
        "histories lost, late, asked for": [
            site.counts[f"histories {what}"] for what in ("lost", "late", "asked for")
        ],
        "exports asked for, answered with something else": [
            site.exports.total(),
            site.counts["exports broken"],
        ],
        "kept games that are not the referee's": wrong,
        f"most frames of a bot in any {WINDOW_S:g} s (limit {LIMIT})": max(
            site.most[name] for name in BOTS
        ),
        "forbidden": {name: site.counts[name] for name in FORBIDDEN},
        "unknown commands": sum(name.startswith("unknown") for name in site.counts),
        "replays not left": 2 * len(site.games) - _left(site),
        "seconds at the server": round(world.now),
    }


def _left(site: Site) -> int:
    """Bots that are at no replay any more."""
    return sum(name not in table.present for table in site.games.values() for name in BOTS)


def transcript(seed: int) -> list[str]:
    """A game of one bot with one person, as the bot hears (<) and says (>) it: seconds, message."""
    site = Site(seed)
    world = World(site, seed)
    bot = BotPeer(world, LiveBot("Bot-a", BotSettings("bot:x", frozenset({2}))), cautious(seed))
    lines: list[str] = []

    def note(way: str, frame: str) -> None:
        command, _, content = frame.partition(" ")
        short = json.dumps(json.loads(content), separators=(",", ":"))
        lines.append(f"{world.now:6.2f} {way} {command} {short}")

    class Noted(deque[str]):
        def append(self, frame: str) -> None:
            note(">", frame)
            super().append(frame)

    bot.out = Noted()
    world.on_delivery = lambda peer, frame: note("<", frame) if peer is bot else None
    world.add(bot)
    world.add(Person(world, "Zoe", ["Bot-a"], 1, 2))
    world.run(lambda: len(site.games) == 1 and not (bot.bot.seats or bot.queue or bot.out))
    return lines


def main() -> None:
    """Prints the counts as JSON, or the transcript."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=25)
    parser.add_argument("--games", type=int, default=20)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--quiet", action="store_true", help="a server that does nothing wrong")
    parser.add_argument("--transcript", action="store_true")
    given = parser.parse_args()
    if given.transcript:
        print("\n".join(transcript(given.seed)))
        return
    began = time.process_time()
    found = play(given.people, given.games, given.seed, Faults() if given.quiet else FAULTS)
    found["processor seconds"] = round(time.process_time() - began, 1)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
