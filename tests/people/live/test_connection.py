"""Bots over real sockets with a server on this machine."""

import asyncio
import logging
from pathlib import Path

import numpy as np
import pytest
from support.live_loopback import Loopback, serving, until
from support.live_site import Faults, Site
from support.live_world import Person, World, cautious

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.data.files import load_games
from hanabi_rl.games.hanabi.python_game import full_deck
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.live.account import Account, LoginRefusedError, read_server
from hanabi_rl.people.live.agent_worker import AgentWorker
from hanabi_rl.people.live.bot import LiveBot
from hanabi_rl.people.live.connection import Connection
from hanabi_rl.people.live.effects import BotSettings, DecisionToken, Fetch, GameEnded, Send
from hanabi_rl.people.live.partner_memory import PartnerMemory
from hanabi_rl.people.live.send_rate import BackOff, SendRateLimiter
from hanabi_rl.people.serve.folder import GameFolder
from hanabi_rl.people.serve.lifecycle import Game
from hanabi_rl.people.serve.numpy_interpreter import NumPyInterpreter
from hanabi_rl.play.episodes import play_games

TURNS = 14  # enough to play and redraw cards of both hands
PASSWORDS = {"Bot-a": "swordfish-71", "Bot-b": "tarantella-93"}


class Scripted:
    """Agents without a network."""

    def __init__(self, folder=None, seed=0):
        self.choose, self.folder, self.kept, self.forgotten = cautious(seed), folder, [], []

    async def query(self, request):
        return self.choose(request)

    async def on_game_ended(self, ended):
        if ended.game is not None:
            self.kept.append(ended.game)
            if self.folder is not None:
                self.folder.finish(ended.game)

    async def forget(self, forget):
        self.forgotten.append(forget.player)


def connection(address, name, agents, settings=None, password=None):
    settings = settings or BotSettings("bot:x", frozenset({2, 3, 4, 5}), move_delay_s=0.0, tables=2)
    account = Account(name, password or PASSWORDS[name])
    pace, waits = SendRateLimiter(150, 2.0), BackOff(first_s=0.02)
    return Connection(
        LiveBot(name, settings),
        read_server(address),
        account,
        agents,
        rate_limiter=pace,
        back_off=waits,
    )


def hurried(world, name, games, seats=3, bots=("Bot-a", "Bot-b")):
    person = Person(world, name, list(bots), games, seats)
    person.patience = 0.1
    world.add(person)
    return person


async def play(loopback, connections, games):
    """Run the bots until `games` games have ended, then close them."""
    running = [asyncio.create_task(each.run()) for each in connections]
    await until(lambda: len(loopback.site.games) >= games or any(r.done() for r in running))
    for each in connections:
        each.close()
    await asyncio.wait_for(asyncio.gather(*running), 120)


def left_behind(folder: Path) -> bytes:
    """Names and contents of all files."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return b"".join(str(file).encode() + file.read_bytes() for file in files)


@pytest.mark.slow  # a game at human speed over sockets
def test_bots_and_people_over_sockets_with_disconnects(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    site = Site(3, Faults(chatter=0.1, late=0.1, refuse=0.05))
    world = World(site, 3)
    for number in range(2):
        hurried(world, f"p{number}", 2)
    loopback = Loopback(world, PASSWORDS)
    loopback.restart_at = [20, 80]
    folders = [GameFolder(tmp_path / name) for name in PASSWORDS]
    agents = [Scripted(folder, seed) for seed, folder in enumerate(folders)]
    with serving(loopback) as address:
        bots = [connection(address, name, a) for name, a in zip(PASSWORDS, agents, strict=True)]
        asyncio.run(play(loopback, bots, 4))
    forbidden = ("stale actions", "illegal actions", "banned", "actions after the end")
    assert [site.counts[name] for name in forbidden] == [0] * 4
    assert site.counts["restarts"] == 2
    assert all(count <= 200 for count in site.most.values())
    for scripted, folder in zip(agents, folders, strict=True):
        assert len({game.game_id for game in scripted.kept}) == len(scripted.kept) >= 2
        for game in scripted.kept:
            assert list(game.moves) == site.games[game.game_id].table.actions
        files = sorted(folder.path.glob("**/*.safetensors"))
        assert len(files) == len(scripted.kept)
        games = load_games(files[0])
        assert games.human_seats.sum() == 1  # two of the three are bots
    printed = caplog.text  # no password, session or human name in any file
    everything = left_behind(tmp_path) + printed.encode()
    assert b"connecting again" in everything and len(loopback.sessions) > 2
    for secret in [*PASSWORDS.values(), *loopback.sessions]:
        assert secret.encode() not in everything
    assert b"p0" not in left_behind(tmp_path / "Bot-a")


def test_wrong_password_ends_immediately(caplog):
    loopback = Loopback(World(Site()), PASSWORDS)
    with serving(loopback) as address, pytest.raises(LoginRefusedError, match="not the correct"):
        asyncio.run(connection(address, "Bot-a", Scripted(), password="wrong-12").run())
    assert len(loopback.logins) == 1 and "wrong-12" not in caplog.text


def test_account_used_elsewhere_ends_the_bot(caplog):
    loopback = Loopback(World(Site()), PASSWORDS)

    async def fight(address):
        first, other = (connection(address, "Bot-a", Scripted()) for _ in range(2))
        tasks = [asyncio.create_task(each.run()) for each in (first, other)]
        done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED, timeout=120)
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        (lost,) = done
        with pytest.raises(LoginRefusedError, match="does another program use this account"):
            lost.result()

    with serving(loopback) as address:
        asyncio.run(fight(address))
    assert len(loopback.logins) <= 8


def test_live_game_matches_play_games(tmp_path):
    """Two accounts of one bot play the moves of `play_games`, although each guesses its own
    cards."""
    rules = Rules(num_players=2)
    policy = load_policy("bot:simple", rules)
    site = Site(5)
    world = World(site, 5)
    loopback = Loopback(world, PASSWORDS)
    settings = BotSettings("bot:simple", frozenset({2}), move_delay_s=0.0)
    folder = GameFolder(tmp_path)
    thinkers = [
        AgentWorker({2: policy}, 2, folder, None, run=NumPyInterpreter()) for _ in PASSWORDS
    ]

    async def meet(address):
        bots = [
            connection(address, name, backend, settings)
            for name, backend in zip(PASSWORDS, thinkers, strict=True)
        ]
        running = [asyncio.create_task(each.run()) for each in bots]
        await until(lambda: len(site.clients) == 2)
        client = site.clients["Bot-a"]  # typed by its owner
        site.on_tableCreate(client, {"name": "x", "options": {}, "maxPlayers": 2}, 0.0)
        site.on_tableJoin(site.clients["Bot-b"], {"tableID": 1}, 0.0)
        site.on_tableStart(client, {"tableID": 1}, 0.0)
        await until(lambda: site.tables[1].table.turn >= TURNS, seconds=300.0)
        site.on_tableTerminate(client, {"tableID": 1}, 0.0)
        for each in bots:
            each.close()
        await asyncio.wait_for(asyncio.gather(*running), 120)

    with serving(loopback) as address:
        asyncio.run(meet(address))
    referee = site.games[5001].table
    records = play_games((policy, policy), rules, np.array([referee.deck], np.uint8))
    assert referee.actions == records.moves(0)[: referee.turn].tolist()
    assert referee.turn >= TURNS and site.counts["illegal actions"] == 0
    kept = load_games(next(iter(tmp_path.glob("**/2p-5001.safetensors"))))
    assert kept.moves(0).tolist() == referee.actions and not kept.human_seats.any()


def test_partner_memory_is_saved_per_lineup(tmp_path):
    kept = PartnerMemory(tmp_path / "players")
    tree = {"a": np.ones((1, 2), np.float32), "b": (np.arange(3, dtype=np.uint32)[None],)}
    kept.write("id" * 20, ["Zoe", "Yan"], tree)
    kept.write("id" * 20, ["Yan", "Xeo"], tree)
    found = kept.read("id" * 20, ["Zoe", "Yan"], tree)
    np.testing.assert_array_equal(found["b"][0], tree["b"][0])
    assert kept.read("id" * 20, ["Yan", "Zoe"], tree) is None  # another turn order
    assert kept.read("other" * 8, ["Zoe", "Yan"], tree) is None
    assert kept.read("id" * 20, ["Zoe", "Yan"], {"a": np.ones((1, 3), np.float32)}) is None
    assert b"Zoe" not in left_behind(tmp_path)
    assert kept.forget("Zoe") == 1 and kept.read("id" * 20, ["Zoe", "Yan"], tree) is None
    assert kept.read("id" * 20, ["Yan", "Xeo"], tree) is not None
    assert kept.forget("Zoe") == 0 and kept.forget("Yan") == 1
    next_file = tmp_path / "players" / "x"
    next_file.write_bytes(b"")
    kept.write("id" * 20, ["Zoe"], tree)
    for file in (tmp_path / "players").glob("*.safetensors"):
        file.write_bytes(b"damaged")
    assert kept.read("id" * 20, ["Zoe"], tree) is None


def test_move_for_passed_turn_is_not_sent():
    written = []

    class Socket:
        async def send(self, frame):
            written.append(frame)

    async def write():
        each = connection("http://localhost:1", "Bot-a", Scripted())
        each._queue.put_nowait(Send("action", {"tableID": 1}, DecisionToken(1, 7)))
        each._queue.put_nowait(Send("loaded", {"tableID": 1}))
        writing = asyncio.create_task(each._write(Socket()))
        await until(lambda: written)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)

    asyncio.run(write())
    assert written == ['loaded {"tableID":1}']


class Asking:
    """Replaces a bot: requests one finished game and records the response."""

    def __init__(self, game):
        self.responses, self.game = [], game

    def on_response(self, number, status, body, now):
        self.responses.append((number, status, body))
        return [GameEnded(self.game, None, ("p0",))]


def test_exports_work_without_a_socket():
    """Without a connection the failure is reported."""
    site = Site(3)
    world = World(site, 3)
    game = Game(5001, Rules(num_players=2), tuple(full_deck(Rules(num_players=2))), frozenset())

    async def fetch(address, number):
        agents = Scripted()
        each = connection(address, "Bot-a", agents)
        each._bot = Asking(game)
        each._do([Fetch(number)])
        await until(lambda: agents.kept)
        return each._bot.responses

    with serving(Loopback(world, PASSWORDS)) as address:
        assert asyncio.run(fetch(address, 5001)) == [
            (5001, 404, b"Error: That game does not exist in the database.")
        ]
    ((number, status, reason),) = asyncio.run(fetch("http://127.0.0.1:9", 7))
    assert (number, status) == (7, 0) and b"ConnectionRefused" in reason
