"""The bot account's state machine: exact messages of the documented protocol."""

import json

import numpy as np
import pytest
from support.live_transcript import (
    DEAL,
    DISCARD,
    HINT,
    INIT,
    LIST,
    MISPLAY,
    MOVES,
    OUR_HINT,
    PLAY,
    TABLE,
    action_frame,
    deck,
    frame,
)

from hanabi_rl.people.live.bot import LiveBot
from hanabi_rl.people.live.effects import BotSettings, Forget, GameEnded, LogLine, RequestMove, Send
from hanabi_rl.people.live.send_rate import BackOff, SendRateLimiter
from hanabi_rl.people.serve.partner_protocol import PartnerAction

SETTINGS = BotSettings("bot:simple", frozenset({2, 3, 4, 5}))
WELCOME = {"userID": 12, "username": "Bot-ann", "playingAtTables": []}
PLAIN = {"variantName": "No Variant", "timed": False, "speedrun": False}


class Talk:
    """A bot and a clock; `say` delivers a message and returns the effects."""

    def __init__(self, settings=SETTINGS, **welcome):
        self.bot, self.now = LiveBot("Bot-ann", settings), 100.0
        self.bot.on_connected()
        self.say("welcome", **(WELCOME | welcome))
        self.deliver(["gameHistory []"])

    def say(self, command, **fields):
        return self.bot.receive(frame(command, **fields), self.now)

    def deliver(self, frames):
        return [effect for text in frames for effect in self.bot.receive(text, self.now)]

    def happen(self, actions):
        return self.deliver([action_frame(action) for action in actions])

    def pm(self, text, name="Zoe"):
        return self.say("chat", msg=text, who=name, room="", recipient="Bot-ann")

    def table(self, table=TABLE, players=("Zoe",), options=PLAIN, running=False, most=5):
        line = {"id": table, "players": list(players), "options": options, "running": running}
        return self.say("table", **line, maxPlayers=most, variant=options["variantName"])

    def room(self, names=("Zoe", "Bot-ann"), options=PLAIN, owner=55):
        players = [{"index": i, "name": name} for i, name in enumerate(names)]
        return self.say("game", tableID=TABLE, owner=owner, players=players, options=options)

    def sit(self, **room):
        self.say("joined", tableID=TABLE)
        return self.room(**room)

    def play(self, actions=LIST, **options):
        """Deliver a game up to its action list; return the effects."""
        self.say("tableStart", tableID=TABLE, replay=False)
        self.say("init", **(INIT | {"options": INIT["options"] | options}))
        return self.say("gameActionList", tableID=TABLE, list=actions)

    def watched(self, *names):
        """Deliver the accounts in the shared replay."""
        return self.say("spectators", tableID=TABLE, spectators=[{"name": n} for n in names])

    def after(self, seconds):
        self.now += seconds
        return self.bot.tick(self.now)

    def gone(self):
        """Wait until absent players count as gone."""
        assert sent(self.after(1)) == []
        return self.after(31)

    def act(self, effects, action=6, probs=None):
        (request,) = [effect for effect in effects if isinstance(effect, RequestMove)]
        weights = np.zeros(request.game.rules.num_actions, np.float32)
        for legal, prob in (probs or {action: 1.0}).items():
            weights[legal] = prob
        return self.bot.on_move(request.token, PartnerAction(action, weights), self.now)


def sent(effects):
    """(command, fields) of each message."""
    return [(each.command, each.fields) for each in effects if isinstance(each, Send)]


def texts(effects):
    return [fields["msg"] for _, fields in sent(effects)]


HERE = {"tableID": TABLE}
LEAVES = ("tableUnattend", HERE)
OVER = {"type": "gameOver", "endCondition": 4, "playerIndex": 0, "votes": None}


def test_game_start_to_first_move():
    talk = Talk()
    talk.sit()
    assert sent(talk.say("tableStart", tableID=TABLE, replay=False)) == [("getGameInfo1", HERE)]
    # `loaded` precedes the list request: later actions arrive separately
    assert sent(talk.say("init", **INIT)) == [("loaded", HERE), ("getGameInfo2", HERE)]
    assert talk.happen(HINT) == []  # in the list too
    assert talk.say("gameActionList", tableID=TABLE, list=DEAL) == []  # Zoe's turn
    effects = talk.happen(HINT)
    (request,) = effects
    assert isinstance(request, RequestMove) and request.game.moves == (15,)
    assert request.move_delay_s == 2.0
    assert request.partners == ("Zoe",)
    (move,) = talk.act(effects)
    assert (move.command, move.fields) == ("action", HERE | {"type": 0, "target": 6})
    assert talk.bot.is_current(move.token)
    assert talk.happen(PLAY) == [] and not talk.bot.is_current(move.token)
    effects = talk.happen([*DISCARD, *OUR_HINT, *MISPLAY])
    assert [effect.game.moves for effect in effects] == [(15, 6, 1), (15, 6, 1, 10, 7)]


@pytest.mark.parametrize(
    "event",
    [
        lambda t: t.happen([{"type": "gameOver", "endCondition": 4, "playerIndex": 0}]),
        lambda t: t.say("tableGone", tableID=TABLE),
        lambda t: t.say("finishOngoingGame", tableID=TABLE, databaseID=7),
        lambda t: t.say("pause", tableID=TABLE, active=True, playerIndex=0),
        lambda t: t.bot.on_connected(),
        lambda t: t.say("tableStart", tableID=TABLE, replay=False),
        lambda t: t.say("gameActionList", tableID=TABLE, list=DEAL),
        lambda t: t.say("boot", TableID=TABLE),
    ],
)
def test_any_event_voids_pending_decision(event):
    talk = Talk()
    (request,) = talk.play()
    assert talk.bot.is_current(request.token)
    event(talk)
    assert not talk.bot.is_current(request.token)
    assert talk.act([request]) == []


def test_one_decision_per_turn():
    talk = Talk()
    (request,) = talk.play()
    assert talk.say("clock", tableID=TABLE, times=[0, 0], activePlayerIndex=1) == []
    assert talk.say("connected", tableID=TABLE, list=[True, True]) == []
    (move,) = talk.act([request])
    talk.say("pause", tableID=TABLE, active=True)
    assert talk.say("pause", tableID=TABLE, active=False) == []  # the move may have arrived
    assert not talk.bot.is_current(move.token)
    # a strike precedes the card; it belongs to our move and needs no new decision
    own_strike = {"type": "strike", "num": 2, "turn": 5, "order": 7}
    assert talk.happen([own_strike]) == []


def test_own_strike_is_not_a_new_turn():
    talk = Talk()
    effects = talk.play()
    talk.act(effects)
    card = {"playerIndex": 1, "order": 7, "suitIndex": 2, "rank": 3}
    misplay = [
        {"type": "strike", "num": 2, "turn": 5, "order": 7},
        {"type": "discard", "failed": True} | card,
    ]
    assert talk.happen(misplay) == []


def test_refused_move_is_verified_then_replaced():
    talk = Talk()
    weighed = {6: 0.6, 15: 0.3, 7: 0.1}
    talk.act(talk.play(), 6, weighed)
    effects = talk.say("warning", warning="no")
    assert sent(effects) == [("getGameInfo2", HERE)]
    assert talk.happen(HINT) == []  # in the requested list too
    effects = talk.say("gameActionList", tableID=TABLE, list=LIST)
    assert sent(talk.act(effects, 6, weighed)) == [
        ("action", HERE | {"type": 3, "target": 0, "value": 1})
    ]
    talk.say("warning", warning="no")
    effects = talk.say("gameActionList", tableID=TABLE, list=LIST)
    assert sent(talk.act(effects, 6, weighed)) == [("action", HERE | {"type": 0, "target": 8})]
    talk.say("warning", warning="no")
    effects = talk.say("gameActionList", tableID=TABLE, list=LIST)
    (note,) = talk.act(effects, 6, weighed)
    assert isinstance(note, LogLine) and "refuses every move" in note.text
    assert sent(talk.after(61)) == [("getGameInfo2", HERE)]  # later it retries all moves
    effects = talk.say("gameActionList", tableID=TABLE, list=LIST)
    assert sent(talk.act(effects, 6, weighed)) == [("action", HERE | {"type": 0, "target": 7})]


def test_unrelated_warning_repeats_no_move():
    """The action list shows that our move was accepted."""
    talk = Talk()
    talk.play([*DEAL, *HINT])
    assert talk.say("warning", warning="that user is not online") == []  # no move is pending
    talk = Talk()
    talk.act(talk.play([*DEAL, *HINT]))
    talk.say("warning", warning="that user is not online")
    assert talk.say("gameActionList", tableID=TABLE, list=[*DEAL, *HINT, *PLAY]) == []
    (request,) = talk.happen(DISCARD)
    assert request.game.moves == (15, 6, 1)
    assert sent(talk.act([request], 6)) == [("action", HERE | {"type": 0, "target": 7})]


def test_unanswered_move_is_retried():
    talk = Talk()
    weighed = {6: 0.6, 7: 0.4}
    for tried in (7, 7, 8):  # repeated once, then replaced
        effects = (
            talk.play()
            if talk.now == 100.0
            else talk.say("gameActionList", tableID=TABLE, list=LIST)
        )
        (move,) = talk.act(effects, 6, weighed)
        assert move.fields["target"] == tried
        assert talk.after(9) == []
        assert sent(talk.after(2)) == [("getGameInfo2", HERE)]
        assert not talk.bot.is_current(move.token)


def test_older_action_list_does_not_refute_move():
    """The first list was late, so two were requested: the second may be older than our move, which
    must not be repeated."""
    talk = Talk()
    talk.say("tableStart", tableID=TABLE, replay=False)
    talk.say("init", **INIT)
    assert sent(talk.after(11)) == [("getGameInfo2", HERE)]
    effects = talk.say("gameActionList", tableID=TABLE, list=LIST)
    assert len(sent(talk.act(effects))) == 1
    assert talk.say("gameActionList", tableID=TABLE, list=LIST) == []
    assert sent(talk.after(11)) == [("getGameInfo2", HERE)]  # shows a lost move
    effects = talk.say("gameActionList", tableID=TABLE, list=LIST)
    assert len(sent(talk.act(effects))) == 1


def test_inconsistent_messages_resynchronise_with_back_off():
    talk = Talk()
    talk.play([*DEAL, *HINT])
    effects = talk.happen([DISCARD[0]])
    assert sent(effects) == [("getGameInfo2", HERE)]
    waits = []
    for _ in range(4):
        talk.say("gameActionList", tableID=TABLE, list=[*DEAL, DISCARD[0]])
        has_begun = talk.now
        while not sent(talk.after(1)):
            assert talk.now < has_begun + 100
        waits.append(talk.now - has_begun)
    assert waits == [40.0, 60.0, 60.0, 60.0]
    (request,) = talk.say("gameActionList", tableID=TABLE, list=LIST)
    assert request.game.turn == 5


def test_missing_messages_are_requested_again():
    talk = Talk()
    talk.say("tableStart", tableID=TABLE, replay=False)
    assert talk.after(9) == [] and sent(talk.after(2)) == [("getGameInfo1", HERE)]
    talk.say("init", **INIT)
    assert talk.after(9) == [] and sent(talk.after(2)) == [("getGameInfo2", HERE)]
    (request,) = talk.say("gameActionList", tableID=TABLE, list=LIST)
    assert talk.after(59) == []  # time limit of the agent
    assert sent(talk.after(5)) == [("getGameInfo2", HERE)]
    assert talk.act([request]) == []


def test_finished_game_is_emitted_once():
    identities = {"tableID": TABLE, "cardIdentities": deck()}
    ended = {"tableID": TABLE, "databaseID": 9001, "sharedReplayLeader": "Zoe"}
    messages = [("cardIdentities", identities), ("finishOngoingGame", ended)]
    for order in (messages, messages[::-1]):
        talk = Talk()
        talk.play()
        talk.happen([OVER])
        assert talk.say("tableGone", tableID=TABLE) == []
        assert talk.say(order[0][0], **order[0][1]) == []
        (over,) = talk.say(order[1][0], **order[1][1])
        assert isinstance(over, GameEnded) and over.partners == ("Zoe",)
        assert talk.watched("Zoe", "Bot-ann") == [] and talk.bot.seats  # Zoe may press Restart
        assert sent(talk.watched("Bot-ann")) == [] and sent(talk.gone()) == [LEAVES]
        assert over.game.game_id == 9001 and over.game.end_reason == "left"
        assert over.game.people == frozenset({0}) and over.observed is None
        assert talk.bot.seats == {}
        assert sent(talk.say(order[1][0], **order[1][1])) in ([], [LEAVES])  # the bot has left
        assert not any(isinstance(e, GameEnded) for e in talk.after(60))


@pytest.mark.parametrize("leader", ["Zoe", "Bot-ann", ""])
@pytest.mark.parametrize("present", [("Zoe", "Bot-ann"), ("Bot-ann", "Yan", "Zoe")])
def test_replay_lead_goes_to_a_human_player(leader, present):
    talk = Talk()
    talk.play()
    finish(talk, leader)
    leads = [("tableSetLeader", HERE | {"name": "Zoe"})]
    assert sent(talk.watched(*present)) == (leads if leader == "Bot-ann" else [])
    assert sent(talk.watched(*present)) == []  # only once
    for _ in range(2):
        assert talk.say("replayLeader", tableID=TABLE, name="Zoe") == []
    assert talk.after(590) == [] and sent(talk.after(11)) == [LEAVES]


def test_replay_lead_goes_to_spectator_without_players():
    """The bot leaves: no one there can restart the game."""
    talk = Talk()
    talk.play()
    finish(talk, "Bot-ann")
    leads = ("tableSetLeader", HERE | {"name": "Yan"})
    assert sent(talk.watched("Bot-ann", "Bot-x", "Yan")) == [leads]
    assert sent(talk.gone()) == [LEAVES] and talk.bot.seats == {}


def test_returned_replay_lead_is_given_again():
    talk = Talk()
    talk.play()
    finish(talk, "Bot-ann")
    leads = [("tableSetLeader", HERE | {"name": "Zoe"})]
    assert sent(talk.watched("Bot-ann", "Zoe")) == leads
    yan = ("tableSetLeader", HERE | {"name": "Yan"})
    assert sent(talk.watched("Bot-ann", "Yan")) == [yan]  # Zoe left before receiving the lead
    assert sent(talk.gone()) == [LEAVES]  # Yan did not play
    talk = Talk()
    talk.play()
    finish(talk, "Zoe")
    talk.watched("Bot-ann", "Zoe")
    effects_of_leads = [talk.say("replayLeader", tableID=TABLE, name="Bot-ann") for _ in range(2)]
    assert [sent(each) for each in effects_of_leads] == [leads, []]
    for _ in range(9):  # with a program that keeps giving it back
        talk.say("replayLeader", tableID=TABLE, name="Zoe")
        effects_of_leads.append(talk.say("replayLeader", tableID=TABLE, name="Bot-ann"))
    assert sum(map(len, effects_of_leads)) == 3


def test_closed_replay_ends_silently():
    """The server closes replays after inactivity and for a restart."""
    talk = Talk()
    talk.play()
    finish(talk, "Bot-ann")
    talk.watched("Bot-ann", "Zoe")
    assert talk.say("boot", TableID=TABLE) == []
    assert talk.bot.seats == {} and talk.after(700) == []


def test_bot_stays_while_player_reloads_replay():
    talk = Talk()
    talk.play([*DEAL, *HINT])
    finish(talk)
    for _ in range(3):
        assert sent(talk.watched("Bot-ann")) == [] and talk.after(1) == talk.after(20) == []
        assert sent(talk.watched("Zoe", "Bot-ann")) == [] and talk.after(60) == []
    talk.watched("Bot-ann")
    assert sent(talk.gone()) == [LEAVES]


def test_table_gone_after_replay_keeps_replay():
    talk = Talk()
    talk.play()
    finish(talk)
    talk.watched("Bot-ann", "Zoe")
    assert talk.say("tableGone", tableID=TABLE) == [] and TABLE in talk.bot.seats
    talk.watched("Bot-ann")
    assert sent(talk.gone()) == [LEAVES]


def test_restarted_game_is_played():
    talk = Talk()
    talk.play()
    finish(talk)
    talk.watched("Bot-ann", "Zoe")
    talk.say("boot", TableID=TABLE)
    new = {"tableID": 40}
    assert talk.say("joined", **new) == []
    assert sent(talk.say("tableStart", **new, replay=False)) == [("getGameInfo1", new)]
    request = talk.say("init", **(INIT | new))
    assert sent(request) == [("loaded", new), ("getGameInfo2", new)]
    (act,) = talk.say("gameActionList", **new, list=LIST)
    assert isinstance(act, RequestMove) and act.token.table == 40


def test_replay_uses_no_seat():
    talk = Talk()
    talk.play()
    finish(talk)
    talk.watched("Bot-ann", "Zoe")
    talk.table(40, players=("Yan",))
    assert sent(talk.pm("/join", "Yan")) == [("tableJoin", {"tableID": 40})]
    assert "not with you at a table before its game" in texts(talk.pm("/start"))[0]
    assert sent(talk.pm("/leave")) == [LEAVES] and TABLE not in talk.bot.seats


@pytest.mark.parametrize("shut", ["close", "shutdown"])
def test_stopping_bot_leaves_replays(shut):
    talk = Talk()
    talk.play()
    finish(talk, "Bot-ann")
    talk.watched("Bot-ann", "Zoe")
    talk.say("replayLeader", tableID=TABLE, name="Zoe")
    effects = talk.bot.close() if shut == "close" else talk.say("shutdown", shuttingDown=True)
    assert sent([*effects, *talk.after(1)]) == [LEAVES] and talk.bot.seats == {}
    talk.play()
    finish(talk)  # and joins no other replay
    assert talk.bot.seats == {}


def test_stopping_bot_gives_lead_without_spectator_list():
    talk = Talk()
    talk.play()
    finish(talk, "Bot-ann")
    assert sent(talk.bot.close()) == [("tableSetLeader", HERE | {"name": "Zoe"}), LEAVES]


@pytest.mark.parametrize("back", [TABLE, 0])
def test_replay_is_rejoined_after_disconnect(back):
    talk = Talk()
    talk.play()
    finish(talk)
    talk.watched("Bot-ann", "Zoe")
    talk.bot.on_connected()
    effects = talk.say("welcome", **(WELCOME | {"disconSpectatingTable": back}))
    spectate = ("tableSpectate", HERE | {"shadowingPlayerIndex": -1})
    assert sent(effects) == ([spectate] if back else [])
    assert (TABLE in talk.bot.seats) == bool(back)
    action_frame = talk.say("tableStart", tableID=TABLE, replay=True)
    assert sent(action_frame) == ([] if back else [LEAVES])


def test_vanished_table_is_searched_in_history():
    talk = Talk()
    talk.play()
    talk.say("tableGone", tableID=TABLE)
    assert talk.after(9) == []
    effects = talk.after(2)
    assert sent(effects) == [("tableUnattend", HERE)]
    assert not any(isinstance(effect, GameEnded) for effect in effects)
    assert "its end was not observed" in effects[1].text and talk.bot.seats == {}
    assert not talk.bot.is_idle


def test_other_bots_are_not_human():
    talk = Talk()
    talk.play()
    names = ["bot-zoe", "Bot-ann"]
    talk = Talk()
    talk.say("tableStart", tableID=TABLE, replay=False)
    talk.say("init", **(INIT | {"playerNames": names}))
    talk.say("gameActionList", tableID=TABLE, list=LIST)
    assert finish(talk).game.people == frozenset()


def test_game_ending_during_resync_is_complete():
    """Events during a resynchronisation are applied: no action list of a finished game arrives."""
    talk = Talk()
    talk.act(talk.play([*DEAL, *HINT]))
    assert sent(talk.say("warning", warning="no")) == [("getGameInfo2", HERE)]
    assert talk.happen([*PLAY, *DISCARD]) == []
    assert finish(talk).game.moves == (15, 6, 1)
    talk = Talk()  # after a lost action the game is searched in the site's history
    talk.play([*DEAL, *HINT])
    talk.happen(DISCARD[:1])
    talk.happen([OVER])
    talk.say("cardIdentities", tableID=TABLE, cardIdentities=deck())
    talk.say("finishOngoingGame", tableID=TABLE, databaseID=9001)
    effects = talk.after(11)
    assert sent(effects) == [] and "its end was not observed" in effects[0].text
    assert sent(talk.watched("Bot-ann")) == [] and sent(talk.gone()) == [LEAVES]


def test_game_continues_after_disconnect():
    talk = Talk()
    (request,) = talk.play()
    talk.bot.on_connected()
    assert not talk.bot.is_current(request.token)
    assert talk.after(120) == []  # silent until the server responds
    effects = talk.say("welcome", **(WELCOME | {"playingAtTables": [TABLE]}))
    assert sent(effects) == [("tableReattend", HERE)]
    (again,) = talk.play()
    assert again.game.moves == request.game.moves and again.token != request.token
    talk.bot.on_connected()  # a game that ended during the disconnect is over
    talk.say("welcome", **WELCOME)
    talk.after(11)
    assert talk.bot.seats == {}


def test_restarted_program_rejoins_its_games():
    talk = Talk()
    effects = talk.say("welcome", **(WELCOME | {"playingAtTables": [TABLE, 40]}))
    assert sent(effects) == [("tableReattend", HERE), ("tableReattend", {"tableID": 40})]
    assert len(talk.play()) == 1


def test_disconnect_loses_room():
    talk = Talk()
    talk.sit()
    talk.bot.on_connected()
    assert talk.bot.seats == {}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"variantName": "Black (5 Suits)"}, "this table has Black (5 Suits)"),
        ({"cardCycle": True}, "I cannot play with the option cardCycle"),
        ({"deckPlays": True}, "I cannot play with the option deckPlays"),
        ({"emptyClues": True}, "I cannot play with the option emptyClues"),
        ({"oneExtraCard": True}, "I cannot play with the option oneExtraCard"),
        ({"oneLessCard": True}, "I cannot play with the option oneLessCard"),
        (
            {"oneExtraCard": True, "oneLessCard": True, "emptyClues": True},
            "I cannot play with the option emptyClues",
        ),
        ({"allOrNothing": True}, "I cannot play with the option allOrNothing"),
        ({"detrimentalCharacters": True}, "I cannot play with the option detrimentalCharacters"),
        ({"sudoku": True}, "I do not know the option sudoku"),
    ],
)
def test_unsupported_options_are_refused_politely(options, reason):
    options = PLAIN | options
    talk = Talk()
    talk.table(options=options)
    ((command, fields),) = sent(talk.pm("/join"))
    assert (command, fields["recipient"]) == ("chatPM", "Zoe")
    assert reason in fields["msg"] and "Sorry" in fields["msg"] and len(fields["msg"]) <= 300
    talk.sit()  # options change in the room: one announcement, then it leaves
    chat, leave = sent(talk.room(options=options))
    assert chat[0] == "chat" and reason in chat[1]["msg"] and chat[1]["room"] == f"table{TABLE}"
    assert leave == ("tableLeave", HERE)
    assert talk.table(options=options) == [] and talk.room(options=options) == []
    talk = Talk()  # if such a game begins, the bot votes to end it
    talk.say("tableStart", tableID=TABLE, replay=False)
    effects = talk.say("init", **(INIT | {"options": options}))
    commands = [command for command, _ in sent(effects)]
    assert commands == ["loaded", "chat", "tableVoteForTermination"]
    assert talk.say("gameActionList", tableID=TABLE, list=LIST) == []
    left = talk.say("finishOngoingGame", tableID=TABLE, databaseID=3)
    assert sent(left) == [("tableUnattend", HERE)]


def test_harmless_options_are_played():
    talk = Talk()
    assert len(talk.play(timed=True, timeBase=120, timePerTurn=20, speedrun=False)) == 1
    assert len(Talk().play(oneExtraCard=True, oneLessCard=True)) == 1  # standard hand size


def test_unsupported_player_count_is_refused():
    talk = Talk(BotSettings("agent:hgroup-2p", frozenset({2})))
    talk.table(players=("Zoe", "Yan"))
    assert "plays with 2 players in total, not 3" in texts(talk.pm("/join"))[0]
    talk.table(players=("Zoe",), most=5)
    assert sent(talk.pm("/join")) == [("tableJoin", HERE)]
    talk.sit()
    chat, leave = sent(talk.room(names=("Zoe", "Bot-ann", "Yan")))
    assert "not 3" in chat[1]["msg"] and leave == ("tableLeave", HERE)
    fours = Talk(BotSettings("x", frozenset({4})))
    fours.table(players=("Zoe",), most=3)
    assert "plays with 4 players" in texts(fours.pm("/join"))[0]
    fours.table(players=("Zoe",), most=4)
    assert sent(fours.pm("/join")) == [("tableJoin", HERE)]


def test_join():
    talk = Talk()
    assert "You are not at a table" in texts(talk.pm("/join"))[0]
    talk.table(running=True)
    assert "You are not at a table" in texts(talk.pm("/join"))[0]
    talk.table(players=("Zoe", "Yan"), most=2)
    assert texts(talk.pm("/join")) == ["Your table is full."]
    talk.table()
    assert sent(talk.pm("/JOIN se&amp;cret ")) == [("tableJoin", HERE | {"password": "se&cret"})]
    assert texts(talk.pm("/join")) == ["I am already joining your table."]
    hello = talk.say("joined", tableID=TABLE)
    ((command, fields),) = sent(hello)
    assert command == "chat" and fields["room"] == f"table{TABLE}" and len(fields["msg"]) <= 300
    assert "program" in fields["msg"] and "/help" in fields["msg"] and "/keep no" in fields["msg"]
    talk.room()
    assert texts(talk.pm("/join")) == ["I am already at your table."]
    talk.table(40, players=("Yan",))
    assert "busy at another table" in texts(talk.pm("/join", "Yan"))[0]


def test_join_prefers_room_over_running_game():
    talk = Talk()
    talk.table(TABLE)
    talk.table(40, running=True)
    assert sent(talk.pm("/join")) == [("tableJoin", HERE)]


def test_failed_join_reports_reason():
    talk = Talk()
    talk.table()
    talk.pm("/join wrong")
    effects = talk.say("warning", warning="That is not the correct password.")
    ((_, fields),) = sent(effects)
    assert fields == {
        "recipient": "Zoe",
        "msg": "The server did not let me in: That is not the correct password.",
    }
    assert talk.say("warning", warning="x") == []


def test_several_tables_up_to_limit():
    talk = Talk(BotSettings("x", frozenset({2}), tables=2))
    for table, name in ((31, "Zoe"), (40, "Yan"), (50, "Xeo")):
        talk.table(table, players=(name,))
    assert sent(talk.pm("/join", "Zoe")) and talk.say("joined", tableID=31)
    assert sent(talk.pm("/join", "Yan")) and talk.say("joined", tableID=40)
    assert "busy" in texts(talk.pm("/join", "Xeo"))[0]


def test_leave_and_start():
    talk = Talk()
    assert "not at a table with you" in texts(talk.pm("/leave"))[0]
    talk.sit()
    assert "Only the owner of the table" in texts(talk.pm("/start"))[0]
    assert sent(talk.pm("/leave")) == [("tableLeave", HERE)]
    assert not any(talk.pm("/leave") for _ in range(100))  # already requested
    talk.now += 6
    assert sent(talk.pm("/leave")) == [("tableLeave", HERE)]
    assert "not at a table with you" in texts(talk.pm("/leave", "Yan"))[0]
    talk.say("left", TableID=TABLE)
    assert talk.bot.seats == {}
    talk = Talk()
    talk.sit(owner=12)
    assert sent(talk.pm("/start")) == [("tableStart", HERE)]
    assert not talk.pm("/start")
    talk.now += 6
    talk.room(names=("Bot-ann", "Zoe", "a", "b", "c"), owner=12)
    assert sent(talk.pm("/start")) == [("tableStart", HERE)]
    talk.play()
    assert "I finish it" in texts(talk.pm("/leave"))[0]
    assert "not with you at a table before its game" in texts(talk.pm("/start"))[0]


def test_create():
    talk = Talk(BotSettings("x", frozenset({2, 3})))
    create, reply = sent(talk.pm("/create"))
    options = {"variantName": "No Variant"}
    assert create == (
        "tableCreate",
        {"name": "with Zoe", "options": options, "maxPlayers": 3},
    )
    assert reply[1]["recipient"] == "Zoe"
    # the server's own commands in a name would set a seed or start from a replay
    other = Talk(BotSettings("x", frozenset({2, 3})))
    (_, fields), _ = sent(other.pm("/create !seed 77 <b>" + "x" * 60))
    assert fields["name"].startswith("seed 77 bx") and len(fields["name"]) == 45
    # players who join the bot's table get the privacy notice too
    ((command, fields),) = sent(talk.say("joined", tableID=TABLE))
    assert command == "chat" and fields["room"] == f"table{TABLE}" and "/keep no" in fields["msg"]
    assert "busy" in texts(talk.pm("/create"))[0]


def test_pending_table_counts_as_seat():
    busy = "I am busy at another table, please try again later."
    talk = Talk()
    talk.table()
    assert sent(talk.pm("/join")) == [("tableJoin", HERE)]
    for name in ("Yan", "Xeo"):
        assert texts(talk.pm("/create", name)) == [busy]
    for over in (
        lambda t: t.after(61),
        lambda t: t.bot.on_connected(),
        lambda t: t.say("warning", warning="no"),
    ):
        talk = Talk()
        talk.table(40, players=("Yan",))
        assert sent(talk.pm("/create"))[0][0] == "tableCreate"
        assert texts(talk.pm("/create", "Xeo")) == texts(talk.pm("/join", "Yan")) == [busy]
        over(talk)
        assert sent(talk.pm("/join", "Yan")) == [("tableJoin", {"tableID": 40})]
    talk = Talk()
    talk.pm("/create")
    assert sent(talk.say("warning", warning="no")) == [
        ("chatPM", {"recipient": "Zoe", "msg": "The server did not create the table: no"})
    ]
    assert talk.say("joined", tableID=TABLE) == []


def test_greets_created_and_joined_tables_only():
    talk = Talk(BotSettings("x", frozenset({2}), tables=3))
    talk.table(31, players=("Yan",))
    talk.pm("/create")
    talk.pm("/join", "Yan")
    talk.table(50, players=("Xeo", "Bot-ann"))
    assert talk.say("joined", tableID=50) == []  # not requested
    talk.bot.seats.clear()
    assert texts(talk.say("joined", tableID=31))
    talk.table(60, players=("Bot-ann",))
    assert texts(talk.say("joined", tableID=60))
    assert talk.say("joined", tableID=61) == []  # no request is pending


def test_bot_leaves_empty_room():
    talk = Talk()
    talk.sit(names=("Bot-ann",), owner=12)
    assert talk.after(299) == []
    assert sent(talk.after(2)) == [("tableLeave", HERE)]
    talk = Talk()
    talk.sit(names=("Bot-ann",))
    talk.after(200)
    talk.room(names=("Bot-ann", "Zoe"))
    talk.after(200)
    assert talk.room(names=("Bot-ann",)) == [] and talk.after(200) == []


def test_only_private_commands_get_replies():
    talk = Talk()
    talk.table()
    for fields in (
        {"msg": "/join", "who": "Zoe", "room": "lobby", "recipient": ""},
        {"msg": "/join", "who": "Zoe", "room": f"table{TABLE}", "recipient": ""},
        {"msg": "/join", "who": "Zoe", "room": "", "recipient": "Bot-bob"},
        {"msg": "/join", "who": "Bot-ann", "room": "", "recipient": "Bot-ann"},  # echo
        {"msg": "join", "who": "Zoe", "room": "", "recipient": "Bot-ann"},
        {"msg": "hello", "who": "Zoe", "room": "", "recipient": "Bot-ann"},
        {"msg": "/help", "who": "", "room": "", "recipient": "Bot-ann", "server": True},
    ):
        assert talk.say("chat", **fields) == []
    assert texts(talk.pm("/fly")) == ["Unknown command: /help lists the commands."]


def test_replies_are_rate_limited():
    talk = Talk()
    assert sum(len(sent(talk.pm("/settings"))) for _ in range(100)) == 8
    assert len(sent(talk.pm("/settings", "Yan"))) == 1
    total = sum(len(sent(talk.pm("/settings", f"who{i}"))) for i in range(200))
    assert total == 32 - 9
    talk.now += 61
    assert len(sent(talk.pm("/settings"))) == 1
    talk.table()
    assert sent(talk.pm("/join"))  # actions use up no replies


def test_help_and_settings_state_what_is_saved():
    talk = Talk(BotSettings("agent:adhoc-2p", frozenset({2}), remember=True))
    lines = texts(talk.pm("/help"))
    help_text = " ".join(lines)
    for word in ("/join", "/leave", "/create", "/start", "/settings", "agent:adhoc-2p"):
        assert word in help_text
    assert "cards and moves" in help_text and "/keep no" in help_text and "/forget" in help_text
    (reply,) = texts(talk.pm("/settings"))
    assert "agent:adhoc-2p" in reply and "games: saved" in reply and "you: saved" in reply
    for settings in (SETTINGS, BotSettings("a" * 60, frozenset({2}), remember=True, keep=False)):
        assert all(len(line) <= 300 for line in texts(Talk(settings).pm("/help")))
    nothing = Talk(BotSettings("x", frozenset({2}), keep=False))
    assert "save nothing" in " ".join(texts(nothing.pm("/help")))
    nothing.table()
    nothing.pm("/join")
    assert "save" not in texts(nothing.say("joined", tableID=TABLE))[0]


def finish(talk, leader="Zoe"):
    talk.happen([OVER])
    talk.say("cardIdentities", tableID=TABLE, cardIdentities=deck())
    ended = {"databaseID": 9001, "sharedReplayLeader": leader}
    effects = talk.say("finishOngoingGame", tableID=TABLE, **ended)
    (over,) = [effect for effect in effects if isinstance(effect, GameEnded)]
    return over


def test_opted_out_games_are_not_saved():
    settings = BotSettings("x", frozenset({2}), remember=True)
    talk = Talk(settings)
    talk.play()
    over = finish(talk)
    assert over.game is not None and over.observed.moves == over.game.moves
    talk.play()
    effects = talk.pm("/keep no")
    assert Forget("Zoe") in effects
    over = finish(talk)
    assert over.game is None and over.observed is None
    assert "not saved" in texts(talk.pm("/settings"))[0]
    talk.play()
    talk.pm("/keep no", "Yan")  # Yan is not at the table
    talk.pm("/keep yes")
    assert finish(talk).game is not None
    assert talk.pm("/forget")[0] == Forget("Zoe")
    talk = Talk(BotSettings("x", frozenset({2}), keep=False))
    talk.play()
    over = finish(talk)
    assert over.game is None and over.observed is None


def test_move_delay():
    assert Talk().play()[0].move_delay_s == 2.0
    assert Talk().play(speedrun=True)[0].move_delay_s == 0.0
    talk = Talk()
    talk.say("tableStart", tableID=TABLE, replay=False)
    timed = INIT["options"] | {"timed": True, "timeBase": 120, "timePerTurn": 20}
    talk.say("init", **(INIT | {"options": timed}))
    talk.say("clock", tableID=TABLE, times=[100_000, 8_000], activePlayerIndex=0, timeTaken=0)
    (request,) = talk.say("gameActionList", tableID=TABLE, list=LIST)
    assert request.move_delay_s == pytest.approx(0.4)
    talk = Talk()  # an untimed clock counts down from 0
    talk.play([*DEAL, *HINT, *PLAY])
    talk.say("clock", tableID=TABLE, times=[-100_000, -80_000], activePlayerIndex=0)
    assert talk.happen(DISCARD)[0].move_delay_s == 2.0


def test_no_move_during_pause():
    talk = Talk()
    (request,) = talk.play()
    talk.say("pause", tableID=TABLE, active=True, playerIndex=0)
    assert talk.act([request]) == []
    (again,) = talk.say("pause", tableID=TABLE, active=False, playerIndex=0)
    assert sent(talk.act([again])) == [("action", HERE | {"type": 0, "target": 7})]


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("after", [False, True])
def test_pause_state_is_read_after_reconnect(before, after):
    """`pause` is not sent during a disconnect."""
    talk = Talk()
    talk.play()
    talk.say("pause", tableID=TABLE, active=before, playerIndex=0)
    talk.bot.on_connected()
    talk.say("welcome", **(WELCOME | {"playingAtTables": [TABLE]}))
    talk.say("tableStart", tableID=TABLE, replay=False)
    talk.say("init", **(INIT | {"paused": after}))
    effects = talk.say("gameActionList", tableID=TABLE, list=LIST)
    assert [type(effect) for effect in effects] == ([] if after else [RequestMove])
    if after:
        effects = talk.say("pause", tableID=TABLE, active=False, playerIndex=0)
    assert sent(talk.act(effects)) == [("action", HERE | {"type": 0, "target": 7})]


def test_move_refused_by_pause_is_repeated():
    talk = Talk()
    weighed = {6: 0.6, 1: 0.25, 4: 0.15}
    move = [("action", HERE | {"type": 0, "target": 7})]
    assert sent(talk.act(talk.play(), 6, weighed)) == move
    talk.say("pause", tableID=TABLE, active=True, playerIndex=0)
    talk.say("warning", warning="You cannot perform a game action when the game is paused.")
    assert talk.say("gameActionList", tableID=TABLE, list=LIST) == []
    effects = talk.say("pause", tableID=TABLE, active=False, playerIndex=0)
    assert sent(talk.act(effects, 6, weighed)) == move


def test_notes_are_written_only_if_enabled():
    weighed = {6: 0.6, 1: 0.25, 4: 0.12, 15: 0.03}
    talk = Talk(BotSettings("x", frozenset({2}), notes=True))
    effects = talk.act(talk.play(), 6, weighed)
    assert sent(effects) == [
        ("note", HERE | {"order": 7, "note": "turn 6: discard 25%, play 60%"}),
        ("note", HERE | {"order": 10, "note": "turn 6: discard 12%"}),
        ("action", HERE | {"type": 0, "target": 7}),
    ]
    assert len({effect.token for effect in effects}) == 1
    assert [c for c, _ in sent(Talk().act(Talk().play(), 6, weighed))] == []
    talk = Talk()
    assert [c for c, _ in sent(talk.act(talk.play(), 6, weighed))] == ["action"]


def test_stopping_server_gets_no_new_seats():
    talk = Talk()
    talk.table()
    talk.say("shutdown", shuttingDown=True)
    assert "about to stop" in texts(talk.pm("/join"))[0]
    assert "about to stop" in texts(talk.pm("/create"))[0]
    talk.say("shutdown", shuttingDown=False)
    assert sent(talk.pm("/join")) == [("tableJoin", HERE)]
    assert "about to stop" in texts(Talk(maintenanceMode=True).pm("/join"))[0]


def test_close_leaves_rooms_and_finishes_games():
    talk = Talk()
    talk.sit()
    assert sent(talk.bot.close()) == [("tableLeave", HERE)] and not talk.bot.is_closed
    talk.say("left", TableID=TABLE)
    assert talk.bot.is_closed
    talk = Talk()
    talk.play()
    assert talk.bot.close() == [] and not talk.bot.is_closed
    finish(talk)
    assert talk.bot.is_closed
    talk.table(40)
    talk.say("welcome", **WELCOME)
    assert "about to stop" in texts(talk.pm("/join"))[0]


@pytest.mark.parametrize("replay", [{"replay": True}, {"sharedReplay": True}, {"spectating": True}])
def test_bot_leaves_foreign_replays(replay):
    talk = Talk()
    if "replay" in replay:
        started = talk.say("tableStart", tableID=TABLE, replay=True)
        assert sent(started) == [("tableUnattend", HERE)]
    talk.say("tableStart", tableID=TABLE, replay=False)
    init = talk.say("init", **(INIT | replay))
    assert sent(init) == [("tableUnattend", HERE)] and talk.bot.seats == {}


VALUES = [None, 7, [], {}, "x", [None], {"tableID": TABLE}, {"tableID": "x"}, {"TableID": TABLE}]


def test_bot_survives_arbitrary_messages():
    """Every command with every type of value in every phase, and invalid frames."""
    from hanabi_rl.people.live.bot import _HANDLERS, _SEAT_HANDLERS

    for command in [*_HANDLERS, *_SEAT_HANDLERS]:
        for value in VALUES:
            for phase in ("lobby", "room", "game"):
                talk = Talk()
                if phase == "room":
                    talk.sit()
                elif phase == "game":
                    talk.play()
                talk.bot.receive(f"{command} {json.dumps(value)}", talk.now)
                talk.after(100)
    talk = Talk()
    for text in ("", "x", "x ", "table {", "{}", "unknown {}", b"\x00", "table " + "[" * 100_000):
        assert all(isinstance(e, LogLine) for e in talk.bot.receive(text, 0.0))


def test_send_rate_limit_per_window():
    rate_limiter, times, now = SendRateLimiter(20, 2.0), [], 0.0
    for _ in range(200):
        now += rate_limiter.wait_s(now)
        rate_limiter.sent(now)
        times.append(now)
    for first in times:
        assert sum(first <= time < first + 2.0 for time in times) <= 20
    assert times[-1] == pytest.approx(18.0)  # a burst of 20, then 10 per second


def test_back_off_grows_with_jitter():
    class Highest:
        def uniform(self, low, high):
            return high

    waits = BackOff(Highest())
    assert [waits.next_s() for _ in range(9)] == [2, 4, 8, 16, 32, 64, 128, 256, 300]
    waits.record_duration(119)
    assert waits.next_s() == 300
    waits.record_duration(120)
    assert waits.next_s() == 2
    waits_s = {BackOff().next_s() for _ in range(10)}
    assert len(waits_s) == 10 and all(1 <= wait <= 2 for wait in waits_s)


def test_move_lists_form_the_transcript():
    assert [*HINT, *PLAY, *DISCARD, *OUR_HINT, *MISPLAY] == MOVES


@pytest.mark.parametrize("field", ["playerNames", "options", "ourPlayerIndex"])
@pytest.mark.parametrize("value", [7, True, 1.5, "x", [1], {"a": 1}])
def test_invalid_init_is_ignored_and_requested_again(field, value):
    talk = Talk()
    talk.say("tableStart", tableID=TABLE, replay=False)
    effects = talk.say("init", **(INIT | {field: value}))
    assert all(isinstance(effect, LogLine | Send) for effect in effects)
    if any("ignored" in effect.text for effect in effects if isinstance(effect, LogLine)):
        assert talk.after(30) == [Send("getGameInfo1", {"tableID": TABLE})]
