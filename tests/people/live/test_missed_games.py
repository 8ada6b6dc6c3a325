"""Games with unobserved ends, recovered from history and export (handwritten transcript)."""

import asyncio
import itertools
import json

import pytest
from support.live_transcript import DEAL, INIT, LIST, OUR_ACTIONS, TABLE, action_frame, deck, frame

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.live.agent_worker import AgentWorker
from hanabi_rl.people.live.bot import LiveBot
from hanabi_rl.people.live.effects import BotSettings, Fetch, GameEnded, LogLine, Send
from hanabi_rl.people.live.partner_memory import PartnerMemory
from hanabi_rl.people.serve.player_view import player_view

NUMBER = 9001
NAMES = ["Bot-ann", "Zoe"]  # a history sorts names
WELCOME = {"userID": 12, "username": "Bot-ann", "playingAtTables": []}
EXPORT = {
    "id": NUMBER,
    "players": ["Zoe", "Bot-ann"],
    "deck": deck(),
    "actions": [
        {"type": 3, "target": 1, "value": 1},
        {"type": 0, "target": 6, "value": 0},
        {"type": 1, "target": 1, "value": 0},
        {"type": 2, "target": 0, "value": 0},
        {"type": 0, "target": 3, "value": 0},
        {"type": 1, "target": 7, "value": 0},  # discard B4, our second card
        {"type": 4, "target": 0, "value": 4},  # Zoe terminates the game
    ],
    "seed": "p2v0s77",
}
MOVES = (*OUR_ACTIONS, 1)
LAST_MOVE = [
    {"type": "discard", "playerIndex": 1, "order": 7, "suitIndex": 3, "rank": 4, "failed": False},
    {"type": "draw", "playerIndex": 1, "order": 13, "suitIndex": -1, "rank": -1},
    {"type": "status", "clues": 8, "score": 1, "maxScore": 20},
    {"type": "turn", "num": 6, "currentPlayerIndex": 0},
]
OVER = {"type": "gameOver", "endCondition": 4, "playerIndex": 0, "votes": None}


def entry(number=NUMBER, names=NAMES):
    return {"id": number, "playerNames": names, "endCondition": 4, "seed": "p2v0s77"}


def exported(**changed):
    return json.dumps(EXPORT | changed).encode()


BEFORE = (entry(8000),)
AFTER = (entry(), *BEFORE)


class Away:
    """A bot that loses its connection, and a clock."""

    def __init__(self, history=BEFORE, **settings):
        self.bot = LiveBot("Bot-ann", BotSettings("bot:x", frozenset({2, 3}), **settings))
        self.now = 0.0
        self.back(history)

    def say(self, command, **fields):
        return self.bot.receive(frame(command, **fields), self.now)

    def deliver(self, actions):
        for action in actions:
            self.bot.receive(action_frame(action), self.now)

    def history(self, games):
        self.bot.receive(f"gameHistory {json.dumps(games)}", self.now)

    def back(self, history=None, **welcome):
        """Connect and log in; history None: none arrives."""
        self.bot.on_connected()
        self.say("welcome", **(WELCOME | welcome))
        if history is not None:
            self.history(list(history))

    def play(self, actions=LIST, table=TABLE, **init):
        self.say("tableStart", tableID=table, replay=False)
        self.say("init", **(INIT | {"tableID": table} | init))
        self.say("gameActionList", tableID=table, list=actions)

    def after(self, seconds, step=1.0):
        """Effects with their times: (seconds, effect)."""
        done = []
        for _ in range(round(seconds / step)):
            self.now += step
            done += [(self.now, effect) for effect in self.bot.tick(self.now)]
        return done

    def get(self, status=200, body=None, number=NUMBER):
        return self.bot.on_response(number, status, exported() if body is None else body, self.now)


def of(kind, done):
    return [effect for _, effect in done if isinstance(effect, kind)]


def lost(history=AFTER, **settings):
    """The bot has reconnected after a game that ended during its disconnect."""
    away = Away(**settings)
    away.play()
    away.back(history)
    return away


def the_game(effects):
    (ended,) = [effect for effect in effects if isinstance(effect, GameEnded)]
    return ended


def seen_to_its_end():
    there = Away(remember=True)
    there.play()
    there.deliver([*LAST_MOVE, OVER])
    there.say("cardIdentities", tableID=TABLE, cardIdentities=deck())
    return the_game(there.say("finishOngoingGame", tableID=TABLE, databaseID=NUMBER))


def test_recovered_game_equals_observed_game():
    away = lost(remember=True)
    done = away.after(15)
    assert of(Fetch, done) == [Fetch(NUMBER)]  # requested once
    assert not away.bot.is_idle and away.bot.seats == {}
    found = the_game(away.get())
    assert away.bot.is_idle and of(Fetch, away.after(700)) == []
    assert found.game.moves == MOVES and found.game.game_id == NUMBER  # by hand
    assert found.game.end_reason == "left" and found.game.people == {0}
    assert found.partners == ("Zoe",)
    assert [divmod(card, 5) for card in found.game.deck[5:8]] == [(0, 1), (1, 0), (3, 3)]
    observed = seen_to_its_end()  # equal to the observed game
    assert (observed.game, observed.partners) == (found.game, found.partners)
    assert (observed.observed.moves, observed.observed.people) == (
        found.observed.moves,
        found.observed.people,
    )
    assert player_view(observed.observed, 1) == player_view(found.observed, 1)


@pytest.mark.slow
def test_recovered_game_teaches_the_same_memory(tmp_path):
    """The memory saved by `--remember` is equal byte by byte."""
    policy = load_policy("agent:adhoc-2p", Rules(num_players=2))
    away = lost(remember=True)
    away.after(12)
    files = []
    for folder, ended in (("seen", seen_to_its_end()), ("looked up", the_game(away.get()))):
        thinking = AgentWorker({2: policy}, 2, None, PartnerMemory(tmp_path / folder))
        asyncio.run(thinking.on_game_ended(ended))
        files += (tmp_path / folder).iterdir()
    observed, looked_up = files
    assert observed.name == looked_up.name and observed.read_bytes() == looked_up.read_bytes()


def test_game_is_recovered_from_any_seat():
    """Three players; the site's seat 2 (ours) begins: our seat is 0, its cards 10-14 are our
    0-4."""
    away = Away(remember=True)
    names = ["Bot-zed", "Zoe", "Bot-ann"]
    init = {"playerNames": names, "ourPlayerIndex": 2}
    init["options"] = INIT["options"] | {"numPlayers": 3, "startingPlayer": 2}
    cards = [(o % 5, 1 + o // 5) for o in range(10)]
    deal = [
        {"type": "draw", "playerIndex": o // 5, "order": o, "suitIndex": suit, "rank": rank}
        for o, (suit, rank) in enumerate([*cards, *[(-1, -1)] * 5])
    ]
    away.play(deal, **init)
    away.back([entry(names=["Bot-ann", "Bot-zed", "Zoe"])])
    assert of(Fetch, away.after(15)) == [Fetch(NUMBER)]
    left = [(s, r) for s in range(5) for r in (1, 1, 1, 2, 2, 3, 3, 4, 4, 5)]
    for card in cards:
        left.remove(card)
    whole = [{"suitIndex": s, "rank": r} for s, r in [*cards, *left]]
    acts = [{"type": 2, "target": 0, "value": 3}, {"type": 0, "target": 1}]  # to Bot-zed; play
    game = {"players": names, "deck": whole, "actions": acts, "options": {"startingPlayer": 2}}
    found = the_game(away.get(body=exported(**game)))
    # n = 3, h = 5: colour hints to the next seat are 10 to 14, plays 5 to 9
    assert found.game.moves == (13, 6) and found.partners == ("Bot-zed", "Zoe")
    assert found.game.people == {2}  # Zoe; two are bots
    assert found.observed.people == {1, 2}
    assert [divmod(card, 5) for card in found.game.deck[5:8]] == [(0, 0), (1, 0), (2, 0)]


def test_missing_history_is_requested_with_back_off():
    away = lost(history=None)
    done = away.after(200)
    requests = [(when, effect.fields) for when, effect in done if isinstance(effect, Send)][1:]
    assert [fields for _, fields in requests] == [{"offset": 0, "amount": 12}] * 5
    waits = [b[0] - a[0] for a, b in itertools.pairwise(requests)]
    assert waits == [10, 20, 40, 60] and not of(Fetch, done)
    away.history([entry(), entry(8000)])
    done = away.after(20)
    assert of(Fetch, done) == [Fetch(NUMBER)] and of(Send, done) == []
    assert the_game(away.get()).game.moves == MOVES


def test_later_end_needs_no_history_request():
    """The table still exists at the reconnect and ends before the bot has rejoined."""
    away = Away()
    away.play()
    away.back([entry(8000)], playingAtTables=[TABLE])
    away.say("tableGone", tableID=TABLE)
    away.history([entry()])
    assert of(Fetch, away.after(15)) == [Fetch(NUMBER)]
    assert the_game(away.get()).game.moves == MOVES


WRONG = {
    "nothing": (0, b"the network is down", "the network is down"),
    "404": (404, b"no such game", "status 404"),
    "500": (500, b"", "status 500"),
    "html": (200, b"<html>", "expected JSON"),
    "half": (200, exported()[:-40], "expected JSON"),
    "deep": (200, b"[" * 100_000, "expected JSON"),
    "a list": (200, b"[]", "expected the game with this number"),
    "another": (200, exported(id=7), "expected the game with this number"),
    "no deck": (200, exported(deck=None), "expected a list under 'deck'"),
    "a variant": (200, exported(options={"variant": "Black"}), "No Variant"),
    "no player": (200, exported(players=[]), "expected 2-5 players"),
    "no move": (200, exported(actions=[{"type": 9}]), "action 0"),
    "illegal": (200, exported(actions=[{"type": 1, "target": 0}] * 2), "a discard while all 8"),
}


@pytest.mark.parametrize("what", WRONG)
def test_invalid_exports_are_retried_then_given_up(what):
    status, body, reason = WRONG[what]
    away = lost()
    away.after(12)
    waits = []
    for _ in range(4):
        assert away.get(status, body) == []
        has_begun = away.now
        while not of(Fetch, away.after(1)):
            assert away.now < has_begun + 100
        waits.append(away.now - has_begun)
    assert waits == [10, 20, 40, 60]
    if what == "404":  # it was late
        assert the_game(away.get()).game.moves == MOVES
        return
    away.get(status, body)
    fetches, notes = 5, []
    while not notes:
        done = away.after(1)
        notes = of(LogLine, done)
        if of(Fetch, done):
            fetches += 1
            away.get(status, body)
    assert f"table {TABLE}: the game is not saved: replay {NUMBER}: " in notes[0].text
    assert reason in notes[0].text and fetches < 15 and away.now < 700
    assert away.bot.is_idle and away.after(700) == []


def test_different_game_of_same_players_is_rejected():
    others = {
        8001: {"actions": [{"type": 3, "target": 1, "value": 2}]},
        8002: {"deck": [deck()[4], deck()[1], *deck()[:1], *deck()[3:4], deck()[2], *deck()[5:]]},
        8003: {"actions": EXPORT["actions"][:3]},  # shorter than the observed game
        8004: {"players": ["Bot-ann", "Zoe"]},
    }
    away = lost(history=[entry(n) for n in (NUMBER, *others)])
    done = away.after(12)
    for number, changed in others.items():
        assert of(Fetch, done) == [Fetch(number)]
        assert away.get(number=number, body=exported(id=number, **changed)) == []
        assert of(Fetch, away.after(1)) == []  # at most one per 2 seconds
        done = away.after(1)
    assert of(Fetch, done) == [Fetch(NUMBER)]
    assert the_game(away.get()).game.moves == MOVES
    # games of other players are not requested
    away = lost(history=[entry(names=["Bot-ann", "Yan"]), entry(9002, ["Bot-ann", "Yan", "Zoe"])])
    assert of(Fetch, away.after(100)) == []


def test_unmatched_game_is_logged():
    away = lost(history=[entry()])
    away.after(12)
    away.get(body=exported(actions=[{"type": 3, "target": 1, "value": 2}]))
    (note,) = of(LogLine, away.after(700))
    assert note.text == f"table {TABLE}: the game is not saved: replay {NUMBER} is another game"
    away = lost()
    away.history([])
    away = lost(history=[])
    (_, note) = of(LogLine, away.after(700))
    assert "the game is not saved: not in the site's history" in note.text


def room(away):
    away.say("joined", tableID=TABLE)
    players = [{"index": 0, "name": "Zoe"}, {"index": 1, "name": "Bot-ann"}]
    away.say("game", tableID=TABLE, owner=5, players=players, options=INIT["options"])


@pytest.mark.parametrize("has_begun", [True, False], ids=["it began", "it began as we were away"])
def test_unobserved_game_matches_newer_game_of_players(has_begun):
    away = Away()
    room(away)
    if has_begun:
        away.say("tableStart", tableID=TABLE, replay=False)
    others = [entry(7999), entry(8000), entry(8500, ["Bot-ann", "Yan"])]
    away.back([entry(), *others])
    assert of(Fetch, away.after(15)) == [Fetch(NUMBER)]
    found = the_game(away.get())
    assert found.game.moves == MOVES and found.partners == ("Zoe",)


@pytest.mark.parametrize("again", ["tableStart", "init"])
def test_observations_survive_two_disconnects(again):
    """The bot rejoins and disconnects again before the action list arrives."""
    away = Away()
    away.play()
    away.back(BEFORE, playingAtTables=[TABLE])
    away.say("tableStart", tableID=TABLE, replay=False)
    if again == "init":
        away.say("init", **INIT)
    away.back([entry(8500), *AFTER])
    assert of(Fetch, away.after(15)) == [Fetch(8500)]
    other = {
        "actions": [{"type": 3, "target": 1, "value": 2}],
        "deck": deck()[:13] + deck()[:12:-1],
    }
    assert away.get(number=8500, body=exported(id=8500, **other)) == []
    assert of(Fetch, away.after(2)) == [Fetch(NUMBER)]
    assert the_game(away.get()).game.moves == MOVES


def test_disconnected_time_does_not_count():
    away = lost(history=None)
    away.after(12)
    away.bot.on_connected()
    away.now += 1000
    away.back()
    assert of(Fetch, away.after(60)) == [] and not away.bot.is_idle
    away.history(AFTER)
    assert of(Fetch, away.after(2)) == [Fetch(NUMBER)]


def test_unobserved_game_may_have_more_players():
    """A room that the bot was in does not match a game of other players."""
    for has_begun in (True, False):
        away = Away()
        room(away)
        if has_begun:
            away.say("tableStart", tableID=TABLE, replay=False)
        away.back([entry(names=["Bot-ann", "Yan", "Zoe"])])
        assert of(Fetch, away.after(15)) == [Fetch(NUMBER)] * has_begun


def test_room_without_game_is_dropped_silently():
    away = Away()
    room(away)
    away.back([entry(8000)])
    assert away.bot.is_idle and away.after(100) == []
    away.history([entry()])  # a later game
    assert away.after(100) == []


def test_observed_games_match_first():
    """Two tables, one of them unobserved, and two finished games."""
    away = Away()
    room(away)
    away.say("tableStart", tableID=TABLE, replay=False)
    away.play(table=40)
    away.back([entry(), entry(9002)])
    assert of(Fetch, away.after(15)) == [Fetch(NUMBER)]
    first = away.get()
    assert any("table 40" in effect.text for effect in first if isinstance(effect, LogLine))
    assert of(Fetch, away.after(3)) == [Fetch(9002)]
    second = away.get(number=9002, body=exported(id=9002, actions=EXPORT["actions"][:1]))
    assert the_game(second).game.moves == (15,)


def test_unobserved_game_needs_earlier_history():
    """After a start of the program, before the first history."""
    away = Away(history=None)
    away.say("tableStart", tableID=TABLE, replay=False)
    away.back([entry(), entry(8000)])
    done = away.after(700)
    assert of(Fetch, done) == [] and "is not saved" in of(LogLine, done)[-1].text
    away = Away(history=None)  # nor an observed game, if the first history arrives after its end
    away.play()
    away.back(AFTER)
    assert of(Fetch, away.after(15)) == [Fetch(8000)]
    assert away.get(number=8000, body=exported(id=8000, actions=[])) == []
    assert of(Fetch, away.after(2)) == [Fetch(NUMBER)]
    away = Away(history=None)  # a history during the game lists earlier games
    assert of(Send, away.after(12)) == [Send("historyGet", {"offset": 0, "amount": 10})]
    away.say("tableStart", tableID=TABLE, replay=False)
    away.history([entry(8000)])
    away.back([entry(), entry(8000)])
    assert of(Fetch, away.after(15)) == [Fetch(NUMBER)]


def test_complete_game_is_not_searched():
    away = Away()
    away.play()
    away.say("tableStart", tableID=40, replay=False)  # another game, unobserved
    away.deliver([*LAST_MOVE, OVER])
    away.history([entry()])
    away.say("cardIdentities", tableID=TABLE, cardIdentities=deck())
    the_game(away.say("finishOngoingGame", tableID=TABLE, databaseID=NUMBER))
    away.back(AFTER)
    assert of(Fetch, away.after(700)) == []


def test_game_number_suffices_for_recovery():
    away = Away()
    away.play()
    away.deliver([*LAST_MOVE, OVER])
    away.say("finishOngoingGame", tableID=TABLE, databaseID=NUMBER)  # the deck never arrives
    done = away.after(12)
    assert of(Fetch, done) == [Fetch(NUMBER)]
    assert the_game(away.get()).game.moves == MOVES


def test_game_that_became_a_replay_is_recovered():
    away = Away()
    away.play()
    away.back([], playingAtTables=[TABLE])
    away.say("tableStart", tableID=TABLE, replay=False)
    away.say("init", **(INIT | {"sharedReplay": True, "databaseID": NUMBER}))
    assert of(Fetch, away.after(12)) == [Fetch(NUMBER)]
    assert the_game(away.get()).game.moves == MOVES


def test_game_without_moves_is_not_saved():
    away = Away()
    away.say("tableStart", tableID=40, replay=False)  # another table is unobserved
    away.play(DEAL)
    away.back([entry()])
    away.after(12)
    (note,) = away.get(body=exported(actions=EXPORT["actions"][-1:]))
    assert isinstance(note, LogLine) and f"table {TABLE}" in note.text
    assert of(Fetch, away.after(700)) == [] and away.bot.is_idle


def test_opted_out_games_are_not_saved():
    def send_chat(away, text):
        away.say("chat", msg=text, who="Zoe", room="", recipient="Bot-ann")

    for settings, keeps, learns in (
        ({"keep": False}, False, False),
        ({"keep": False, "remember": True}, False, True),
        ({}, True, False),
        ({"remember": True}, True, True),
    ):
        away = lost(**settings)
        away.after(12)
        found = the_game(away.get())
        assert (found.game is not None, found.observed is not None) == (keeps, learns)
    away = lost(remember=True)
    away.after(12)
    send_chat(away, "/keep no")
    found = the_game(away.get())
    assert found.game is None and found.observed is None


def test_closing_waits_for_searches():
    away = lost()
    away.bot.close()
    away.after(12)
    assert not away.bot.is_closed
    away.get()
    assert away.bot.is_closed
    away = lost(history=[])
    away.bot.close()
    away.after(700)
    assert away.bot.is_closed


def test_unsupported_player_count_is_not_recovered():
    away = Away()
    away.say("tableStart", tableID=TABLE, replay=False)
    away.back([entry(names=["Bot-ann", "Yan", "Xeo", "Zoe"])])
    away.after(12)
    assert away.get(body=exported(players=["Zoe", "Bot-ann", "Yan", "Xeo"], actions=[])) == []
    assert "is another game" in of(LogLine, away.after(700))[-1].text


@pytest.mark.parametrize(
    "games", [None, 7, {}, [None], [{}], [{"id": "x", "playerNames": NAMES}], [{"id": NUMBER}]]
)
def test_invalid_history_is_ignored(games):
    away = lost(history=[])
    away.history(games)
    assert of(Fetch, away.after(15)) == []
    away.history([*(games if isinstance(games, list) else []), entry()])
    assert of(Fetch, away.after(15)) == [Fetch(NUMBER)]
