"""Bots and scripted people on a `Site` without sockets.

Time is a number. Frames arrive in order per direction, in any order across connections.
"""

from __future__ import annotations

import collections
import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from support.live_site import Client, Site

from hanabi_rl.people.live.bot import LiveBot
from hanabi_rl.people.live.effects import Fetch, Forget, GameEnded, LogLine, RequestMove, Send
from hanabi_rl.people.live.protocol import write_frame
from hanabi_rl.people.live.send_rate import SendRateLimiter
from hanabi_rl.people.serve.partner_protocol import PartnerAction

Choose = Callable[[RequestMove], PartnerAction]


class Peer:
    """Client side of a connection, with its frames in transit."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.out: collections.deque[str] = collections.deque()
        self.client: Client | None = None
        self.again_at = 0.0

    def connect(self) -> None:
        self.out.clear()
        self.client = self.world.site.connect(self.name)

    def receive_frame(self, frame: str) -> None:
        raise NotImplementedError

    def tick(self) -> None:
        """Called periodically."""


class BotPeer(Peer):
    """A `LiveBot` with the effects that `connection.py` would perform."""

    def __init__(self, world: World, bot: LiveBot, choose: Choose) -> None:
        super().__init__(world, bot.username)
        self.bot, self.choose, self.rate_limiter = bot, choose, SendRateLimiter()
        self.queue: collections.deque[Send] = collections.deque()
        self.thinking: list[tuple[float, RequestMove]] = []
        self.fetching: list[tuple[float, int]] = []
        self.ended: list[GameEnded] = []
        self.forgotten: list[str] = []
        self.noted: list[str] = []

    def connect(self) -> None:
        self.queue.clear()
        self.thinking.clear()
        self.bot.on_connected()
        super().connect()

    def receive_frame(self, frame: str) -> None:
        self.do(self.bot.receive(frame, self.world.now))

    def do(self, effects: list[Any]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self.queue.append(effect)
            elif isinstance(effect, RequestMove):
                self.thinking.append((self.world.now + effect.move_delay_s, effect))
            elif isinstance(effect, Fetch):
                self.fetching.append((self.world.now + 0.5, effect.number))
            elif isinstance(effect, GameEnded):
                self.ended.append(effect)
            elif isinstance(effect, Forget):
                self.forgotten.append(effect.player)
            elif isinstance(effect, LogLine):
                self.noted.append(effect.text)

    def tick(self) -> None:
        now = self.world.now
        for due in [each for each in self.thinking if each[0] <= now]:
            self.thinking.remove(due)
            self.do(self.bot.on_move(due[1].token, self.choose(due[1]), now))
        self.receive_games()
        self.do(self.bot.tick(now))
        while self.queue and self.rate_limiter.wait_s(now) <= 0:
            send = self.queue.popleft()
            if send.token is None or self.bot.is_current(send.token):
                self.out.append(write_frame(send.command, send.fields))
                self.rate_limiter.sent(now)

    def receive_games(self) -> None:
        """Deliver responses of `/export`."""
        now = self.world.now
        for due in [each for each in self.fetching if each[0] <= now]:
            self.fetching.remove(due)
            self.do(self.bot.on_response(due[1], *self.world.site.export(due[1]), now))


class Person(Peer):
    """A scripted user who plays well by seeing the whole deck.

    Without a table they create one, invite the bots and start the game.
    """

    def __init__(
        self,
        world: World,
        name: str,
        bots: list[str],
        games: int,
        seats: int,
        options: dict[str, Any] | None = None,
        guests: tuple[str, ...] = (),
    ) -> None:
        super().__init__(world, name)
        self.bots, self.games, self.seats = bots, games, seats
        self.options, self.guests = options or {}, guests
        self.asked_at, self.patience = -100.0, 3.0
        self.moved: dict[int, tuple[int, float]] = {}  # table -> (turn, time)
        self.again = 0  # number of restarts; they stay in the replay until then
        self.stay_s = 20.0  # maximum stay in seconds
        self.replay: tuple[int, float] | None = None  # (table, time of arrival)
        self.lines: list[str] = []

    def say(self, command: str, **fields: Any) -> None:
        self.out.append(f"{command} {json.dumps(fields)}")

    def receive_frame(self, frame: str) -> None:
        self.lines.append(frame)
        command, _, content = frame.partition(" ")
        if command in ("tableStart", "init", "finishOngoingGame", "welcome"):
            fields = json.loads(content)
            if command == "tableStart":
                self.say("getGameInfo1", tableID=fields["tableID"])
            elif command == "init":
                self.say("loaded", tableID=fields["tableID"])
                self.say("getGameInfo2", tableID=fields["tableID"])
            elif command == "welcome":
                for table in fields["playingAtTables"]:
                    self.say("tableReattend", tableID=table)
            elif self.again:
                self.replay = fields["tableID"], self.world.now
            else:
                self.say("tableUnattend", tableID=fields["tableID"])

    def look_back(self) -> None:
        """In the shared replay: Restart once all are present and they lead; otherwise leave."""
        assert self.replay is not None
        (number, since), site = self.replay, self.world.site
        table = site.tables.get(number)
        if table is None or self.name not in table.spectators:
            self.replay = None
        elif self.world.now - since > self.stay_s:
            self.replay = None
            self.say("tableUnattend", tableID=number)
        elif self.world.now - since > 3.0 and table.owner == self.name:
            self.replay, self.again = None, self.again - 1
            self.say("tableRestart", tableID=number, hidePregame=True)

    def tick(self) -> None:
        site, now = self.world.site, self.world.now
        if self.replay is not None:
            self.look_back()
        mine = [t for t in site.tables.values() if self.name in t.players and t.end is None]
        for table in mine:
            seat = table.current_player
            my_turn = seat >= 0 and table.players[seat] == self.name
            if my_turn and self.name in table.present and not table.paused:
                self.move(table, now)
        rooms = [table for table in mine if table.table is None]
        if not self.bots or now - self.asked_at < self.patience:
            return
        played = sum(table.founder == self.name for table in site.games.values())
        if not mine and played < self.games:
            self.asked_at = now
            options = {"variantName": "No Variant"} | self.options
            self.say("tableCreate", name=f"{self.name}'s", options=options, maxPlayers=self.seats)
        elif rooms:
            self.asked_at = now
            room = rooms[0]
            missing = [bot for bot in self.bots if bot not in room.players and bot in site.clients]
            if len(room.players) >= self.seats:
                self.say("tableStart", tableID=room.number)
            elif missing:
                self.say("chatPM", msg="/join", recipient=missing[0])
            for guest in self.guests:
                if guest not in room.players:
                    self.world.peers[guest].say("tableJoin", tableID=room.number)

    def move(self, table: Any, now: float) -> None:
        turn, when = self.moved.get(table.number, (-1, 0.0))
        if turn == table.table.turn and now - when < 5.0:
            return
        self.moved[table.number] = (table.table.turn, now)
        self.say("action", tableID=table.number, **cheat(table, self.world.random))


def cheat(table: Any, rng: random.Random) -> dict[str, int]:
    """A move that uses the deck: play a playable card, otherwise hint, otherwise discard."""
    referee = table.table
    hand = referee.hands[referee.player]
    for order in hand:
        suit, rank = divmod(referee.deck[order], 5)
        if referee.fireworks[suit] == rank:
            return {"type": 0, "target": table.orders[order]}
    if referee.info_tokens and (referee.info_tokens == 8 or rng.random() < 0.5):
        players = len(table.players)
        target = (table.current_player + rng.randrange(1, players)) % players
        theirs = referee.hands[(referee.player + target - table.current_player) % players]
        suit, rank = divmod(referee.deck[rng.choice(theirs)], 5)
        if rng.random() < 0.5:
            return {"type": 2, "target": target, "value": suit}
        return {"type": 3, "target": target, "value": rank + 1}
    useless = [o for o in hand if referee.fireworks[referee.deck[o] // 5] > referee.deck[o] % 5]
    order = useless[0] if useless else rng.choice(hand)
    return {"type": 1, "target": table.orders[order]}


class World:
    """All clients, and the time."""

    def __init__(self, site: Site, seed: int = 0) -> None:
        self.site, self.random, self.now = site, random.Random(seed), 0.0
        self.peers: dict[str, Peer] = {}
        self.away_s = 2.0  # from a disconnect to the next connection
        self.on_delivery: Callable[[Peer, str], None] = lambda peer, frame: None

    def add(self, peer: Peer) -> None:
        self.peers[peer.name] = peer
        peer.connect()

    def run(self, until: Callable[[], bool], seconds: float = 3600.0, step: float = 0.25) -> None:
        """Run until the condition holds; AssertionError after `seconds`."""
        end = self.now + seconds
        while not until():
            assert self.now < end, f"condition still false after {seconds} s: {self.site.counts}"
            self.deliver()
            self.now += step
            self.site.tick(self.now)
            for peer in self.peers.values():
                if peer.client is None or not peer.client.open:
                    if not peer.client or not peer.client.out:
                        if peer.again_at <= 0:
                            peer.again_at = self.now + self.away_s
                        elif self.now >= peer.again_at:
                            peer.again_at = 0.0
                            peer.connect()
                else:
                    peer.tick()

    def deliver(self) -> None:
        """Deliver all frames, in any order across connections and directions."""
        while True:
            ways: list[tuple[Peer, bool]] = []
            for peer in self.peers.values():
                if peer.client is not None and peer.client.out:
                    ways.append((peer, True))
                if peer.client is not None and peer.client.open and peer.out:
                    ways.append((peer, False))
            if not ways:
                return
            for peer, inward in self.random.sample(ways, len(ways)):
                client = peer.client
                if client is None:
                    continue
                if inward and client.out:
                    frame = client.out.popleft()
                    self.on_delivery(peer, frame)
                    peer.receive_frame(frame)
                elif not inward and peer.out and client.open:
                    client.receive(peer.out.popleft(), self.now)


def cautious(seed: int = 0) -> Choose:
    """An agent without a network, which uses only permitted information.

    It plays cards that are certainly playable, hints at random, otherwise discards its oldest card.
    """
    rng = random.Random(seed)

    def choose(think: RequestMove) -> PartnerAction:
        table = think.game.table()
        rules, seat = table.rules, table.player
        assert seat not in think.game.people and think.game.current_player == seat
        legal = [a for a in range(rules.noop) if table.illegal_reason(a) is None]
        weights = np.zeros(rules.num_actions, np.float32)
        weights[legal] = 1.0 / len(legal)
        size = rules.hand_size
        for slot, order in enumerate(table.hands[seat]):
            knowledge = table.knowledge[order]
            if all(table.fireworks[c] == r for c in knowledge.colors for r in knowledge.ranks):
                return PartnerAction(size + slot, weights)
        hints = [a for a in legal if a >= 2 * size]
        if hints and (rng.random() < 0.6 or 0 not in legal):
            return PartnerAction(rng.choice(hints), weights)
        return PartnerAction(0 if 0 in legal else legal[-1], weights)

    return choose
