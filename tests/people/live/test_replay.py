"""Shared replays after a game: the lead and Restart."""

import pytest
from support.live_site import Faults, Site
from support.live_world import BotPeer, Person, World, cautious

from hanabi_rl.people.live.bot import LiveBot
from hanabi_rl.people.live.effects import BotSettings


class Guest(Person):
    """Asks the bot to create a table, joins it and has the bot start the game."""

    def tick(self) -> None:
        site, bot = self.world.site, self.bots[0]
        at_bots = [t for t in site.tables.values() if t.owner == bot and t.table is None]
        mine = [t for t in site.tables.values() if self.name in t.players and t.end is None]
        if not mine and not site.games and self.world.now - self.asked_at > self.patience:
            self.asked_at = self.world.now
            if at_bots:
                self.say("tableJoin", tableID=at_bots[0].number)
            else:
                self.say("chatPM", msg="/create", recipient=bot)
        elif at_bots and mine and self.world.now - self.asked_at > self.patience:
            self.asked_at = self.world.now
            self.say("chatPM", msg="/start", recipient=bot)
        bots, self.bots = self.bots, []  # creates no table
        super().tick()
        self.bots = bots


def world_of(*names, seed=0, faults=None):
    """A site with bots of these names."""
    site = Site(seed, faults or Faults())
    world = World(site, seed)
    settings = BotSettings("bot:x", frozenset({2, 3}))
    bots = [
        BotPeer(world, LiveBot(name, settings), cautious(seed + place))
        for place, name in enumerate(names)
    ]
    for bot in bots:
        world.add(bot)
    return site, world, bots


def until_idle(site, world, bots, games):
    def over():
        return len(site.games) >= games and all(bot.bot.is_idle and not bot.out for bot in bots)

    world.run(over, seconds=2000.0)
    assert {number: len(bot.ended) for number, bot in enumerate(bots)} == dict.fromkeys(
        range(len(bots)), games
    )
    assert not site.tables  # all replays are closed


@pytest.mark.parametrize("late", [0.0, 0.4])
def test_person_who_requested_table_can_restart(late):
    """The bot created the table, so it leads the replay."""
    site, world, bots = world_of("Bot-a", faults=Faults(late=late), seed=3)
    person = Guest(world, "Zoe", ["Bot-a"], 1, 2)
    person.again = 2
    world.add(person)
    until_idle(site, world, bots, 3)
    assert site.counts["games restarted"] == 2
    assert site.counts["bots left as leaders"] == site.counts["leaders who are not there"] == 0


@pytest.mark.parametrize("seats", [2, 3])
def test_restart_at_a_persons_table(seats):
    names = ("Bot-a", "Bot-b")[: seats - 1]
    site, world, bots = world_of(*names, seed=seats)
    person = Person(world, "Zoe", list(names), 1, seats)
    person.again = 1
    world.add(person)
    until_idle(site, world, bots, 2)
    assert site.counts["games restarted"] == 1 and not site.counts["leaders set"]


def test_bots_leave_replay_after_people():
    """Bots do not wait for each other, and a leading bot does not give the lead to a bot."""
    site, world, bots = world_of("Bot-a", "Bot-b", seed=5)
    person = Person(world, "Zoe", ["Bot-a", "Bot-b"], 1, 3)
    world.add(person)
    until_idle(site, world, bots, 1)
    assert site.counts["replays left"] == 3 and not site.counts["leaders set"]


def test_bot_leaves_replay_after_timeout():
    site, world, _ = world_of("Bot-a")
    person = Guest(world, "Zoe", ["Bot-a"], 1, 2)
    person.again, person.stay_s = 1, 900.0
    person.look_back = lambda: None  # stays and presses nothing
    world.add(person)
    world.run(lambda: bool(site.games) and "Bot-a" not in site.games[5001].spectators, 2000.0)
    (table,) = site.tables.values()
    assert table.spectators == ["Zoe"] and table.owner == "Zoe" and world.now > 600.0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_restarts_with_disconnects(seed):
    """Disconnected bots return to the replay; no game is emitted twice."""
    site, world, bots = world_of("Bot-a", "Bot-b", seed=seed, faults=Faults(drop=0.01, late=0.2))
    person = Person(world, "Zoe", ["Bot-a", "Bot-b"], 1, 3)
    person.again = 2
    world.add(person)

    def over():
        return bool(site.games) and person.replay is None and not site.tables

    world.run(over, seconds=4000.0)
    world.run(lambda: all(bot.bot.is_idle for bot in bots), seconds=1000.0)
    for bot in bots:
        ids = [ended.game.game_id for ended in bot.ended]
        assert sorted(ids) == sorted(site.games)
    assert site.counts["drops"] and not site.counts["bots left as leaders"]
