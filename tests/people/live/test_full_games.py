"""Full games of bots and scripted people on a misbehaving server: the bot's game equals the
referee's, and the bot never violates the protocol."""

from pathlib import Path

import pytest
from support.benchmarks import benchmark
from support.live_site import LIMIT, Faults, Site
from support.live_world import BotPeer, Person, World, cautious

from hanabi_rl.people.live.bot import LiveBot
from hanabi_rl.people.live.effects import BotSettings
from hanabi_rl.people.live.send_rate import MESSAGES
from hanabi_rl.people.serve.lifecycle import Game
from hanabi_rl.people.serve.player_view import player_view

FORBIDDEN = (
    "stale actions",
    "illegal actions",
    "actions in a pause",
    "banned",
    "long chats",
)
BOTS = ("Bot-a", "Bot-b")


def checking(site, choose):
    """`choose`, after comparing the agent's game with the referee's."""
    compared = []

    def checked(request):
        table = site.tables.get(request.token.table)
        if table is None:  # ended, and its replay is empty
            return choose(request)
        referee = table.table
        true = Game(
            request.game.game_id,
            referee.rules,
            tuple(referee.deck),
            request.game.people,
            tuple(referee.actions),
        )
        seat = referee.player
        if table.end is None and request.game.turn == referee.turn:  # otherwise it has ended
            assert player_view(request.game, seat) == player_view(true, seat)
            compared.append(request.game.turn)
        names = [table.players[(seat + k + table.start) % len(table.players)] for k in range(9)]
        assert request.partners == tuple(names[1 : len(table.players)])
        return choose(request)

    return checked, compared


def play(
    faults, seed, games, seats=3, people=2, options=None, agent=cautious, restarts=(), away_s=2.0
):
    """Let `people` persons play `games` games each with both bots; return the site and the bots."""
    site = Site(seed, faults)
    world = World(site, seed)
    world.away_s = away_s
    settings = BotSettings("bot:x", frozenset({2, 3, 4, 5}), tables=people, notes=seed % 2 == 0)
    bots, compared = [], []
    for place, name in enumerate(BOTS):
        choose, count = checking(site, agent(seed + place))
        compared.append(count)
        bots.append(BotPeer(world, LiveBot(name, settings), choose))
        world.add(bots[-1])
    for number in range(people):
        guests = tuple(f"guest{number}-{place}" for place in range(seats - 3))
        for guest in guests:
            world.add(Person(world, guest, [], 0, seats))
        here = list(BOTS[: seats - 1])
        world.add(Person(world, f"p{number}", here, games, seats, options, guests))
    times = list(restarts)

    def over():
        if times and world.now > times[0]:
            times.pop(0)
            site.restart()
        done = len(site.games) >= games * people
        return done and not any(not bot.bot.is_idle or bot.queue or bot.out for bot in bots)

    world.run(over, seconds=500.0 * games * people)
    assert all(compared[: seats - 1])
    return site, bots


def check(site, bots, games):
    """No protocol violations, and every game is emitted once, equal to the referee's."""
    assert {name: site.counts[name] for name in FORBIDDEN} == dict.fromkeys(FORBIDDEN, 0)
    assert not [name for name in site.counts if name.startswith("unknown")]
    assert all(site.most[bot.name] <= MESSAGES for bot in bots) and LIMIT > MESSAGES
    assert len(site.games) == games
    for bot in bots:
        emitted = {ended.game.game_id: ended.game for ended in bot.ended if ended.game is not None}
        assert len(emitted) == len(bot.ended)
        here = {n: table for n, table in site.games.items() if bot.name in table.players}
        mine = {n: table for n, table in here.items() if table.table.actions}  # games with moves
        assert set(emitted) == set(mine)
        for number, game in emitted.items():
            referee = mine[number].table
            assert list(game.moves) == referee.actions and list(game.deck) == referee.deck
            assert game.table().score == referee.score
            finished = referee.over or not referee.can_score()
            assert game.end_reason == ("finished" if finished else "left")
            seats = [mine[number].start + seat for seat in range(len(mine[number].players))]
            at = [mine[number].players[seat % len(seats)] for seat in seats]
            assert game.people == {i for i, name in enumerate(at) if not name.startswith("Bot-")}


CASES = {
    "quiet": (Faults(), {}),
    "chatter": (Faults(chatter=0.5, late=0.3), {}),
    "refusals": (Faults(refuse=0.2), {}),
    "silence": (Faults(swallow=0.05), {}),
    "terminated": (Faults(terminate=0.03), {}),
    "five": (Faults(), {"seats": 5}),
    "four, seat 2 starts": (Faults(), {"seats": 4, "options": {"startingPlayer": 2}}),
    "timed": (Faults(), {"options": {"timed": True, "timeBase": 20, "timePerTurn": 2}}),
    "speedrun": (Faults(), {"options": {"speedrun": True}}),
    "two": (Faults(chatter=0.2), {"seats": 2}),
}


@pytest.mark.parametrize("case", CASES)
def test_games_on_a_misbehaving_server(case):
    faults, options = CASES[case]
    site, bots = play(faults, seed=len(case), games=1, **options)
    check(site, bots, 2)
    assert site.counts["replays left"] >= len(bots)
    if case == "refusals":
        assert site.counts["refusals"] > 5
    if case == "timed":
        assert site.counts["ended 3"] == 0  # no clock ran out
    assert bool(site.notes) == (len(case) % 2 == 0)


@pytest.mark.parametrize("seed", [1, 2])
def test_games_with_disconnects_and_a_restart(seed):
    site, bots = play(Faults(drop=0.02), seed, games=2, restarts=(30.0, 60.0))
    assert site.counts["drops"] > 3 and site.counts["restarts"] == 2
    check(site, bots, 4)


@pytest.mark.parametrize("seats", [3, 5])
def test_games_ending_during_disconnect_are_recovered(seats):
    """They equal completely observed games, although the site's history is late."""
    faults = Faults(drop=0.03, history=0.5, export=0.6)
    options = {"startingPlayer": 1, "timed": True, "timeBase": 20, "timePerTurn": 2}
    site, bots = play(faults, 1, 4, seats, people=4, options=options, away_s=30.0)
    recovered = [text for bot in bots for text in bot.noted if "recovered from replay" in text]
    assert len(recovered) > 5
    assert site.counts["exports broken"] > 2 and site.counts["histories lost"] > 2
    assert max(site.exports.values()) < 30
    assert site.counts["ended 3"] > 2  # disconnected players run out of time
    check(site, bots, 16)


@pytest.mark.slow
def test_100_concurrent_games_with_all_faults():
    everything = Faults(0.003, 0.03, 0.2, 0.2, 0.01, 0.002, 0.3, 0.4)
    site, bots = play(everything, 7, games=10, people=10, restarts=(100.0, 300.0))
    assert site.counts["drops"] > 10 and site.counts["refusals"] > 100
    check(site, bots, 100)


def test_docs_transcript_matches_benchmark():
    games = benchmark("live_games")
    docs = Path(__file__).parents[3] / "docs"
    lines = (docs / "live-transcript.txt").read_text().splitlines()
    assert games.transcript(games.SEED) == lines
