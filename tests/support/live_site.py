"""A hanab.live server for tests, with a `PythonGame` as referee and faults on request.

It counts what clients do. It has no socket and no clock: frames in, frames out. It shares no code
with the bot.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import random
from typing import Any

from support import live_history

from hanabi_rl.games.hanabi.actions import Move, decode_action, encode_action
from hanabi_rl.games.hanabi.python_game import PythonGame, full_deck
from hanabi_rl.games.hanabi.rules import Rules

LIMIT, WINDOW_S, MAX_FRAME = 200, 2.0, 8192
NORMAL, STRIKEOUT, TIMEOUT, TERMINATED, VOTED = 1, 2, 3, 4, 10
IN_ORDER = ("gameAction", "gameActionList", "init", "tableStart", "welcome", "warning")


@dataclasses.dataclass
class Faults:
    """Probabilities per frame or move."""

    drop: float = 0.0  # disconnect, at a frame from the client
    refuse: float = 0.0  # reject a legal move
    chatter: float = 0.0  # send lobby chat, unknown messages or broken frames with a frame
    late: float = 0.0  # let a frame of another command overtake, where order is free
    swallow: float = 0.0  # ignore an action silently
    terminate: float = 0.0  # terminate the game, at a move
    history: float = 0.0  # send a history late or never
    export: float = 0.0  # send an error or another game


class Client:
    """Server side of one connection."""

    def __init__(self, site: Site, name: str) -> None:
        self.site, self.name, self.open = site, name, True
        self.out: collections.deque[str] = collections.deque()
        self._times: collections.deque[float] = collections.deque()

    def send(self, command: str, fields: Any) -> None:
        faults, chance = self.site.faults, self.site.random
        while chance.random() < faults.chatter:
            self.out.append(self._noise())
        self.out.append(f"{command} {json.dumps(fields)}")
        if len(self.out) > 1 and chance.random() < faults.late:
            one, other = self.out[-2].partition(" ")[0], command
            if one not in IN_ORDER or other not in IN_ORDER:
                self.out[-1], self.out[-2] = self.out[-2], self.out[-1]

    def _noise(self) -> str:
        chat = {"msg": "/join me &amp; all", "who": "Chatty", "room": "lobby", "recipient": ""}
        return self.site.random.choice(
            [
                f"chat {json.dumps(chat)}",
                f"chat {json.dumps(chat | {'room': '', 'recipient': 'someone-else'})}",
                'userInactive {"userID": 7, "inactive": true}',
                'somethingNew {"tableID": 1, "list": [null]}',
                "table [1, 2]",
                "tableGone {}",
                'gameAction {"tableID": 999999, "action": {"type": "turn"}}',
                'gameAction {"tableID": 999999}',
                "brokenJSON {",
                "noJSON",
                'user {"userID": 9, "name": "Chatty"}',
            ]
        )

    def receive(self, frame: str, now: float) -> None:
        """Process a frame from the client."""
        site = self.site
        site.now = now
        self._times.append(now)
        while self._times[0] <= now - WINDOW_S:
            self._times.popleft()
        site.counts["messages"] += 1
        site.most[self.name] = max(site.most[self.name], len(self._times))
        if len(self._times) > LIMIT or len(frame.encode()) > MAX_FRAME:
            site.counts["banned"] += 1
            site.close(self, f"{self.name} is banned")
            return
        command, space, content = frame.partition(" ")
        handle = getattr(site, f"on_{command}", None)
        if not space or handle is None:
            site.counts[f"unknown {command}"] += 1
            return
        handle(self, json.loads(content), now)
        if self.open and site.random.random() < site.faults.drop:
            site.counts["drops"] += 1
            site.close(self)


@dataclasses.dataclass
class SiteTable:
    """A room or a game."""

    number: int
    name: str
    players: list[str]
    owner: str
    options: dict[str, Any]
    max_players: int
    password: str = ""
    table: PythonGame | None = None
    deck: list[int] = dataclasses.field(default_factory=list)  # in site order
    orders: list[int] = dataclasses.field(default_factory=list)  # internal order -> site order
    actions: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    present: set[str] = dataclasses.field(default_factory=set)
    spectators: list[str] = dataclasses.field(default_factory=list)  # accounts in the shared replay
    founder: str = ""  # creator of the table, whoever owns it now

    def __post_init__(self) -> None:
        self.founder = self.owner

    votes: set[str] = dataclasses.field(default_factory=set)
    end: int | None = None
    clock_ms: list[float] = dataclasses.field(default_factory=list)
    turn_began: float = 0.0
    paused: bool = False

    @property
    def start(self) -> int:
        return self.options.get("startingPlayer", 0)

    @property
    def current_player(self) -> int:
        """Site seat of the current player; -1 after the end."""
        if self.table is None or self.end is not None:
            return -1
        return (self.table.player + self.start) % len(self.players)

    def line(self) -> dict[str, Any]:
        return {
            "id": self.number,
            "name": self.name,
            "passwordProtected": bool(self.password),
            "numPlayers": len(self.players),
            "ownerID": Site.user_id(self.owner),
            "running": self.table is not None,
            "variant": self.options["variantName"],
            "options": self.options,
            "players": self.players,
            "spectators": self.watching(),
            "maxPlayers": self.max_players,
            "sharedReplay": self.end is not None,
        }

    def watching(self) -> list[dict[str, Any]]:
        return [{"name": name, "shadowingPlayerIndex": -1} for name in self.spectators]


class Site:
    """The server. `counts` and `most` (messages in any two seconds, by client) record client
    behaviour; `games` are the finished games."""

    def __init__(self, seed: int = 0, faults: Faults | None = None) -> None:
        self.random, self.faults = random.Random(seed), faults or Faults()
        self.clients: dict[str, Client] = {}
        self.tables: dict[int, SiteTable] = {}
        self.counts: collections.Counter[str] = collections.Counter()
        self.most: collections.Counter[str] = collections.Counter()
        self.games: dict[int, SiteTable] = {}
        self.notes: list[tuple[str, dict[str, Any]]] = []
        self.chats: list[tuple[str, str, str]] = []  # (sender, room or recipient, text)
        self.exports: collections.Counter[int] = collections.Counter()  # by game
        self.now = 0.0
        self._late: list[tuple[float, Client, list[Any]]] = []
        self._lost_replays: dict[str, int] = {}  # account -> replay that a disconnect interrupted
        self._next = 1

    def connect(self, name: str) -> Client:
        """Open a connection; closes the account's older one."""
        if name in self.clients:
            self.close(self.clients[name], "you have logged on from somewhere else")
        client = self.clients[name] = Client(self, name)
        playing = [
            t.number for t in self.tables.values() if t.table and not t.end and name in t.players
        ]
        client.send(
            "welcome",
            {
                "userID": self.user_id(name),
                "username": name,
                "totalGames": 0,
                "settings": {},
                "friends": [],
                "playingAtTables": playing,
                "disconSpectatingTable": self._lost_replays.pop(name, 0),
                "shuttingDown": False,
                "maintenanceMode": False,
            },
        )
        client.send("userList", [{"userID": self.user_id(n), "name": n} for n in self.clients])
        client.send("tableList", [t.line() for t in self.tables.values()])
        client.send("chatList", {"list": [], "unread": 0})
        client.send(
            "chat", {"msg": "Welcome &amp; enjoy", "who": "", "room": "lobby", "server": True}
        )
        self._history(client, 0, live_history.LAST)
        return client

    # Finished games.

    def on_historyGet(self, client: Client, fields: dict[str, Any], now: float) -> None:  # noqa: N802
        self.counts["histories asked for"] += 1
        self._history(client, fields["offset"], fields["amount"])

    def _history(self, client: Client, offset: int, amount: int) -> None:
        """Newest games of the account first."""
        mine = [n for n, table in self.games.items() if client.name in table.players]
        chosen = sorted(mine, reverse=True)[offset : offset + amount]
        self._tell_history(client, [live_history.entry(n, self.games[n]) for n in chosen])

    def _tell_history(self, client: Client, games: list[Any]) -> None:
        if not self._fails(self.faults.history):
            client.send("gameHistory", games)
        elif self.random.random() < 0.5:
            self.counts["histories late"] += 1
            self._late.append((self.now + self.random.uniform(1.0, 90.0), client, games))
        else:
            self.counts["histories lost"] += 1

    def export(self, number: int) -> tuple[int, bytes]:
        """Return status and body of `GET /export/NUMBER`."""
        self.exports[number] += 1
        if number not in self.games:
            return 404, b"Error: That game does not exist in the database."
        record = live_history.export(number, self.games[number])
        if self._fails(self.faults.export):
            self.counts["exports broken"] += 1
            return live_history.broken(number, record, self.random)
        return 200, json.dumps(record).encode()

    def _fails(self, chance: float) -> bool:
        return chance > 0 and self.random.random() < chance

    @staticmethod
    def user_id(name: str) -> int:
        return sum(name.encode()) + 1000

    def close(self, client: Client, error: str = "") -> None:
        """Close a connection: a room loses the player, a game continues."""
        if not client.open:
            return
        if error:
            client.send("error", {"error": error})
        client.open = False
        if self.clients.get(client.name) is client:
            del self.clients[client.name]
        for table in list(self.tables.values()):
            if client.name in table.players and table.table is None:
                self._unseat(table, client.name)
            table.present.discard(client.name)
            if client.name in table.spectators:
                self._unwatch(table, client.name)
                if table.number in self.tables:
                    self._lost_replays[client.name] = table.number

    def restart(self) -> None:
        """Disconnect all clients; games survive, rooms do not."""
        self.counts["restarts"] += 1
        for client in list(self.clients.values()):
            self.close(client)
        self.tables = {n: t for n, t in self.tables.items() if t.table is not None}

    def broadcast(self, command: str, fields: Any) -> None:
        for client in self.clients.values():
            client.send(command, fields)

    def _warn(self, client: Client, text: str) -> None:
        client.send("warning", {"warning": text})

    # Rooms.

    def on_tableCreate(self, client: Client, fields: dict[str, Any], now: float) -> None:  # noqa: N802
        options = {"variantName": "No Variant", "timed": False, "speedrun": False}
        options |= {k: v for k, v in fields.get("options", {}).items() if v is not None}
        table = SiteTable(
            self._next,
            fields["name"],
            [client.name],
            client.name,
            options,
            fields.get("maxPlayers", 5),
            fields.get("password", ""),
        )
        self._next += 1
        self.tables[table.number] = table
        client.send("joined", {"tableID": table.number})
        self._changed(table)

    def on_tableJoin(self, client: Client, fields: dict[str, Any], now: float) -> None:  # noqa: N802
        table = self.tables.get(fields["tableID"])
        elsewhere = any(client.name in t.players for t in self.tables.values() if t.end is None)
        if table is None or table.table is not None or len(table.players) >= table.max_players:
            self._warn(client, "You cannot join that table.")
        elif client.name in table.players:
            self._warn(client, "You are at that table already.")
        elif table.password != fields.get("password", ""):
            self._warn(client, "That is not the correct password for this game.")
        elif elsewhere and not client.name.startswith("Bot-"):
            self._warn(client, "You cannot join more than one table at a time.")
        else:
            table.players.append(client.name)
            client.send("joined", {"tableID": table.number})
            self._changed(table)

    def on_tableLeave(self, client: Client, fields: dict[str, Any], now: float) -> None:  # noqa: N802
        table = self.tables.get(fields["tableID"])
        if table is None or table.table is not None or client.name not in table.players:
            self._warn(client, "You cannot leave that table.")
            return
        self._unseat(table, client.name)
        client.send("left", {"TableID": table.number})

    def _unseat(self, table: SiteTable, name: str) -> None:
        table.players.remove(name)
        if not table.players or name == table.owner:
            del self.tables[table.number]
            for other in table.players:
                if other in self.clients:
                    self.clients[other].send("left", {"TableID": table.number})
            self.broadcast("tableGone", {"tableID": table.number})
        else:
            self._changed(table)

    def on_tableSetVariant(self, client: Client, fields: dict[str, Any], now: float) -> None:  # noqa: N802
        table = self.tables[fields["tableID"]]
        table.options |= fields["options"]
        self._changed(table)

    def _changed(self, table: SiteTable) -> None:
        self.broadcast("table", table.line())
        for index, name in enumerate(table.players):
            if name in self.clients and table.table is None:
                players = [
                    {"index": i, "name": other, "you": i == index, "present": True, "stats": {}}
                    for i, other in enumerate(table.players)
                ]
                room = {
                    "tableID": table.number,
                    "name": table.name,
                    "owner": self.user_id(table.owner),
                    "players": players,
                    "options": table.options,
                    "passwordProtected": bool(table.password),
                    "maxPlayers": table.max_players,
                }
                self.clients[name].send("game", room)

    def on_tableStart(self, client: Client, fields: dict[str, Any], now: float) -> None:  # noqa: N802
        table = self.tables.get(fields["tableID"])
        if table is None or table.owner != client.name or len(table.players) < 2 or table.table:
            self._warn(client, "You cannot start that game.")
            return
        self.random.shuffle(table.players)
        rules = Rules(num_players=len(table.players))
        table.deck = full_deck(rules)
        self.random.shuffle(table.deck)
        size, players = rules.hand_size, rules.num_players
        table.orders = [
            ((order // size + table.start) % players) * size + order % size
            if order < size * players
            else order
            for order in range(rules.deck_size)
        ]
        table.table = PythonGame(rules, [table.deck[order] for order in table.orders])
        base = 1000.0 * table.options.get("timeBase", 0) if table.options["timed"] else 0.0
        table.clock_ms, table.turn_began = [base] * players, now
        for site_order in range(size * players):
            self._send_action(table, self._draw(table, site_order // size, site_order))
        self.broadcast("table", table.line())
        for name in table.players:
            if name in self.clients:
                self.clients[name].send("tableStart", {"tableID": table.number, "replay": False})

    # Games.

    def on_getGameInfo1(self, client: Client, fields: dict[str, Any], now: float) -> None:  # noqa: N802
        table = self._table_of(client, fields)
        if table is not None:
            init = {
                "tableID": table.number,
                "playerNames": table.players,
                "ourPlayerIndex": table.players.index(client.name),
                "spectating": False,
                "shadowing": False,
                "replay": False,
                "databaseID": -1,
                "seed": "",
                "options": table.options,
                "sharedReplay": False,
                "paused": table.paused,
            }
            client.send("init", init)

    def on_getGameInfo2(self, client: Client, fields: dict[str, Any], now: float) -> None:  # noqa: N802
        table = self._table_of(client, fields)
        if table is not None:
            actions_sent = [self._scrubbed(table, action, client.name) for action in table.actions]
            client.send("gameActionList", {"tableID": table.number, "list": actions_sent})
            here = [name in table.present for name in table.players]
            client.send("connected", {"tableID": table.number, "list": here})
            client.send("clock", self._clock(table, now))
            client.send("noteListPlayer", {"tableID": table.number, "notes": []})
            client.send("voteChange", {"tableID": table.number, "vote": False})
            client.send("spectators", {"tableID": table.number, "spectators": []})
            client.send("chatList", {"list": [], "unread": 0})

    def on_loaded(self, client: Client, fields: dict[str, Any], now: float) -> None:
        table = self._table_of(client, fields)
        if table is not None:
            table.present.add(client.name)

    def on_tableReattend(self, client: Client, fields: dict[str, Any], now: float) -> None:  # noqa: N802
        if self._table_of(client, fields) is not None:
            client.send("tableStart", {"tableID": fields["tableID"], "replay": False})

    def on_tableUnattend(self, client: Client, fields: dict[str, Any], now: float) -> None:  # noqa: N802
        table = self.tables.get(fields["tableID"])
        self.counts["unattends"] += 1
        if table is None:
            return
        if table.end is None:
            table.present.discard(client.name)
        elif client.name not in table.spectators:
            self.counts["unattends of others"] += 1
            self._warn(client, f"You are not spectating replay {table.number}.")
        else:
            self.counts["replays left"] += 1
            people = [name for name in table.spectators if not name.startswith("Bot-")]
            self.counts["bots left as leaders"] += client.name == table.owner and (
                client.name not in people and bool(people)
            )
            self._unwatch(table, client.name)

    def _unwatch(self, table: SiteTable, name: str) -> None:
        """The lead stays with an account that has left."""
        table.spectators.remove(name)
        table.present.discard(name)
        if not table.spectators:
            del self.tables[table.number]
            self.broadcast("tableGone", {"tableID": table.number})
            return
        self.broadcast("table", table.line())
        self._spectators(table)

    def _spectators(self, table: SiteTable) -> None:
        watching = {"tableID": table.number, "spectators": table.watching()}
        self._watchers(table, "spectators", watching)

    def _watchers(self, table: SiteTable, command: str, fields: Any) -> None:
        for name in table.spectators:
            self.clients[name].send(command, fields)

    def on_tableSpectate(self, client: Client, fields: dict[str, Any], now: float) -> None:  # noqa: N802
        table = self.tables.get(fields["tableID"])
        if table is None or table.table is None or fields["shadowingPlayerIndex"] != -1:
            self._warn(client, f"Table {fields['tableID']} does not exist.")
        elif table.end is None and client.name in table.players:
            self._warn(client, "You cannot spectate a game that you are currently playing.")
        else:
            if client.name not in table.spectators:
                table.spectators.append(client.name)
            self.broadcast("table", table.line())
            self._spectators(table)
            client.send("tableStart", {"tableID": table.number, "replay": table.end is not None})

    def on_tableSetLeader(self, client: Client, fields: dict[str, Any], now: float) -> None:  # noqa: N802
        """In a replay; any account may, as on the real server."""
        table, heir = self.tables.get(fields["tableID"]), fields["name"]
        self.counts["leaders set"] += 1
        if table is None or table.end is None:
            self._warn(client, "That is not a shared replay.")
        elif heir not in table.spectators:
            self.counts["leaders who are not there"] += 1
            client.send("error", {"error": f'"{heir}" is not spectating the shared replay.'})
        elif heir == table.owner:
            self._warn(client, f"{heir} is already the leader.")
        else:
            table.owner = heir
            for _ in range(2):  # the real server sends it twice
                leader = {"tableID": table.number, "name": heir}
                self._watchers(table, "replayLeader", leader)

    def on_tableRestart(self, client: Client, fields: dict[str, Any], now: float) -> None:  # noqa: N802
        """Move all accounts in the replay to the lobby, to a new table, and into its game."""
        table = self.tables.get(fields["tableID"])
        if table is None or table.end is None or client.name not in table.spectators:
            self._warn(client, "You are not in that shared replay.")
            return
        others = [t for t in self.tables.values() if t.end is None]
        busy = [name for name in table.players if any(name in t.players for t in others)]
        if client.name != table.owner:
            self._warn(client, "You cannot restart a game unless you are the leader.")
        elif client.name not in table.players:
            self._warn(client, "You cannot restart a game unless you played in it.")
        elif not set(table.players) <= set(table.spectators):
            self.counts["restarts without a player"] += 1
            self._warn(client, "Not all of the players are in the shared replay.")
        elif busy:
            self._warn(client, f"{busy[0]} is already playing in another game.")
        else:
            self.counts["games restarted"] += 1
            self._watchers(table, "boot", {"TableID": table.number})
            for name in list(table.spectators):
                self._unwatch(table, name)
            name, _, _ = table.name.partition(" (#")
            new = SiteTable(self._next, name, [], client.name, table.options, table.max_players)
            self._next += 1
            self.tables[new.number] = new
            for player in [client.name, *(p for p in table.players if p != client.name)]:
                new.players.append(player)
                self.clients[player].send("joined", {"tableID": new.number})
            self.on_tableStart(client, {"tableID": new.number}, now)

    def on_note(self, client: Client, fields: dict[str, Any], now: float) -> None:
        self.notes.append((client.name, fields))

    def on_pause(self, client: Client, fields: dict[str, Any], now: float) -> None:
        table = self._table_of(client, fields)
        if table is not None:
            table.paused = fields["setting"] == "pause"
            index = table.players.index(client.name)
            pause = {"tableID": table.number, "active": table.paused, "playerIndex": index}
            self._players(table, "pause", pause)

    def on_action(self, client: Client, fields: dict[str, Any], now: float) -> None:
        table = self.tables.get(fields["tableID"])
        self.counts["actions"] += 1
        if table is None or table.table is None or table.end is not None:
            self.counts["actions after the end"] += 1
            self._warn(client, "That game is over.")
            return
        if table.current_player < 0 or table.players[table.current_player] != client.name:
            self.counts["stale actions"] += 1
            self._warn(client, "It is not your turn.")
            return
        if table.paused:
            self.counts["actions in a pause"] += 1
            self._warn(client, "The game is paused.")
            return
        action = self._referee(table, fields)
        if action is None or table.table.illegal_reason(action):
            self.counts["illegal actions"] += 1
            self._warn(client, "That is not a legal action.")
        elif self.random.random() < self.faults.refuse:
            self.counts["refusals"] += 1
            self._warn(client, "You cannot do that, for no good reason.")
        elif self.random.random() < self.faults.swallow:
            self.counts["swallowed"] += 1
        else:
            self._move(table, action, now)

    def on_tableVoteForTermination(self, client: Client, fields: Any, now: float) -> None:  # noqa: N802
        table = self._table_of(client, fields)
        if table is not None:
            table.votes.add(client.name)
            players = len(table.players)
            if len(table.votes) >= (2 if players == 2 else (players + 1) // 2):
                self._end(table, VOTED, now)

    def on_tableTerminate(self, client: Client, fields: dict[str, Any], now: float) -> None:  # noqa: N802
        table = self._table_of(client, fields)
        if table is not None:
            self._end(table, TERMINATED, now)

    def _table_of(self, client: Client, fields: dict[str, Any]) -> SiteTable | None:
        table = self.tables.get(fields["tableID"])
        if table is None or table.table is None or client.name not in table.players:
            self._warn(client, f"You are not playing at table {fields['tableID']}.")
            return None
        return table if table.end is None else None

    def _referee(self, table: SiteTable, fields: dict[str, Any]) -> int | None:
        """Convert a site action to the referee's."""
        referee = table.table
        assert referee is not None
        kind, target, value = fields["type"], fields["target"], fields.get("value", -1)
        if kind in (0, 1):
            hand = [table.orders[order] for order in referee.hands[referee.player]]
            if target not in hand:
                return None
            return encode_action(
                referee.rules, Move("play" if kind == 0 else "discard", slot=hand.index(target))
            )
        offset = (target - table.current_player) % len(table.players)
        value = value if kind == 2 else value - 1
        if kind not in (2, 3) or offset == 0 or not 0 <= value < 5:
            return None
        return encode_action(
            referee.rules, Move("color" if kind == 2 else "rank", offset=offset, value=value)
        )

    def _move(self, table: SiteTable, action: int, now: float) -> None:
        referee, current_player = table.table, table.current_player
        assert referee is not None
        before, seat = referee.life_tokens, referee.player
        hands = [list(hand) for hand in referee.hands]
        move = decode_action(referee.rules, action)
        touched = referee.touched(move) if move.kind in ("color", "rank") else []
        num_drawn = referee.drawn
        table.clock_ms[current_player] -= 1000 * (now - table.turn_began)
        if table.options["timed"]:
            table.clock_ms[current_player] += 1000 * table.options.get("timePerTurn", 0)
        taken, table.turn_began = now - table.turn_began, now
        referee.apply(action)
        if move.kind in ("play", "discard"):
            order = table.orders[hands[seat][move.slot]]
            failed = referee.life_tokens < before
            card = {"playerIndex": current_player, "order": order} | self._face(table, order)
            if failed:
                num = referee.rules.max_life_tokens - referee.life_tokens
                strike = {"type": "strike", "num": num, "turn": referee.turn - 1, "order": order}
                self._send_action(table, strike)
            if move.kind == "play" and not failed:
                self._send_action(table, {"type": "play"} | card)
            else:
                self._send_action(table, {"type": "discard"} | card | {"failed": failed})
            if referee.drawn > num_drawn:
                self._send_action(table, self._draw(table, current_player, table.orders[num_drawn]))
        else:
            target = (current_player + move.offset) % len(table.players)
            orders = [table.orders[hands[(seat + move.offset) % len(hands)][s]] for s in touched]
            rank = move.kind == "rank"
            clue = {"type": int(rank), "value": move.value + rank}
            self._send_action(
                table,
                {
                    "type": "clue",
                    "clue": clue,
                    "giver": current_player,
                    "target": target,
                    "list": orders,
                    "turn": referee.turn - 1,
                },
            )
        self._send_action(
            table,
            {
                "type": "status",
                "clues": referee.info_tokens,
                "score": referee.points,
                "maxScore": referee.rules.max_score,
            },
        )
        if referee.over or not referee.can_score():
            self._end(table, STRIKEOUT if referee.life_tokens == 0 else NORMAL, now)
        else:
            self._turn(table)
            self._players(table, "clock", self._clock(table, now) | {"timeTaken": taken * 1000})
            if self.random.random() < self.faults.terminate:
                self._end(table, TERMINATED, now)

    def tick(self, now: float) -> None:
        """End games whose clocks ran out; send late frames."""
        self.now = now
        for each in [each for each in self._late if each[0] <= now]:
            self._late.remove(each)
            if each[1].open:
                each[1].send("gameHistory", each[2])
        for table in list(self.tables.values()):
            runs = table.current_player >= 0 and table.options["timed"] and not table.paused
            if runs and table.clock_ms[table.current_player] < 1000 * (now - table.turn_began):
                self._end(table, TIMEOUT, now)

    def _end(self, table: SiteTable, condition: int, now: float) -> None:
        if table.end is not None:
            return
        over = {"type": "gameOver", "endCondition": condition, "playerIndex": 0, "votes": None}
        self._send_action(table, over)
        table.end = condition
        self._turn(table)
        times = [int(ms) for ms in table.clock_ms]
        self._send_action(table, {"type": "playerTimes", "playerTimes": times, "duration": 1})
        self.counts[f"ended {condition}"] += 1
        number = 5001 + len(self.games)  # in order of their ends
        self.games[number] = table
        for name in table.players:  # players who are present; spectators stay
            if name in table.present and name not in table.spectators:
                table.spectators.append(name)
        if table.owner not in self.clients and table.spectators:
            here = [name for name in table.players if name in table.spectators]
            table.owner = [*here, *table.spectators][0]
        ended = {"tableID": table.number, "databaseID": number}
        ended |= {"sharedReplayLeader": table.owner}
        deck = [{"suitIndex": c // 5, "rank": c % 5 + 1} for c in table.deck]
        messages = [
            ("cardIdentities", {"tableID": table.number, "cardIdentities": deck}),
            ("finishOngoingGame", ended),
        ]
        if self.faults.late:
            self.random.shuffle(messages)
        self.broadcast("tableGone", {"tableID": table.number})
        for name in table.players:
            if name in self.clients:  # present or not
                self._tell_history(self.clients[name], [live_history.entry(number, table)])
        if not table.spectators:
            del self.tables[table.number]
            return
        for command, fields in messages:
            self._watchers(table, command, fields)
        self.broadcast("table", table.line())
        self._spectators(table)

    def _turn(self, table: SiteTable) -> None:
        assert table.table is not None
        turn = {"type": "turn", "num": table.table.turn, "currentPlayerIndex": table.current_player}
        self._send_action(table, turn)

    def _face(self, table: SiteTable, order: int) -> dict[str, int]:
        return {"suitIndex": table.deck[order] // 5, "rank": table.deck[order] % 5 + 1}

    def _draw(self, table: SiteTable, seat: int, order: int) -> dict[str, Any]:
        return {"type": "draw", "playerIndex": seat, "order": order} | self._face(table, order)

    def _scrubbed(self, table: SiteTable, action: dict[str, Any], name: str) -> dict[str, Any]:
        if action["type"] == "draw" and table.players[action["playerIndex"]] == name:
            return action | {"suitIndex": -1, "rank": -1}
        return action

    def _send_action(self, table: SiteTable, action: dict[str, Any]) -> None:
        table.actions.append(action)
        for name in table.players:
            if name in table.present:
                fields = {"tableID": table.number, "action": self._scrubbed(table, action, name)}
                self.clients[name].send("gameAction", fields)

    def _players(self, table: SiteTable, command: str, fields: Any) -> None:
        for name in table.players:
            if name in table.present:
                self.clients[name].send(command, fields)

    def _clock(self, table: SiteTable, now: float) -> dict[str, Any]:
        return {
            "tableID": table.number,
            "times": [int(ms) for ms in table.clock_ms],
            "activePlayerIndex": table.current_player,
            "timeTaken": int(1000 * (now - table.turn_began)),
        }

    # Chat.

    def on_chat(self, client: Client, fields: dict[str, Any], now: float) -> None:
        self.chats.append((client.name, fields["room"], fields["msg"]))
        self.counts["long chats"] += len(fields["msg"]) > 300

    def on_chatPM(self, client: Client, fields: dict[str, Any], now: float) -> None:  # noqa: N802
        self.chats.append((client.name, fields["recipient"], fields["msg"]))
        self.counts["long chats"] += len(fields["msg"]) > 300
        text = fields["msg"].replace("&", "&amp;").replace("<", "&lt;").replace('"', "&#34;")
        message = {"msg": text, "who": client.name, "room": "", "recipient": fields["recipient"]}
        if fields["recipient"] not in self.clients:
            self._warn(client, "That user is not currently online.")
            return
        for name in dict.fromkeys((client.name, fields["recipient"])):
            self.clients[name].send("chat", message)
