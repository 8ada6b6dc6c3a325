"""Series with the same partners equal `play_games(games_per_series=...)`, over restarts too."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import jax
import numpy as np
import pytest
from support.compiled import init_params
from support.games import LENIENT, LENIENT_3P
from support.serving import STUDY, Simple, make_study_play

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.structured.profile import COUNTS
from hanabi_rl.data.games import Games
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.nn.structured_network import StructuredConfig
from hanabi_rl.people.serve import series
from hanabi_rl.people.serve.folder import GameFolder
from hanabi_rl.people.serve.lifecycle import Game
from hanabi_rl.people.serve.local import LocalPlay
from hanabi_rl.people.serve.numpy_interpreter import NumPyInterpreter
from hanabi_rl.people.serve.runner import PartnerRunner
from hanabi_rl.people.study.design import study_of
from hanabi_rl.people.study.export import gather
from hanabi_rl.people.study.folder import StudyFolder
from hanabi_rl.people.study.play import StudyPlay
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games

TOLD = StructuredConfig("conventions", trunk=(8,), head=8, card=(8,), profile=True)
"""All features of a structured network: compiled in `play_games`, NumPy in the runners."""
GAMES, SEED = 4, 3
RUN = NumPyInterpreter()  # one trace for all runners


def told(rules: Rules, seed: int) -> NetworkPolicy:
    """A policy with a profile; resampled so that its moves depend on it."""
    return NetworkPolicy(init_params(rules, TOLD, jax.random.key(seed)), rules, TOLD)


def played(rules: Rules, decks: np.ndarray) -> tuple[list[NetworkPolicy], Games]:
    """One series of agents in table order from a random player."""
    agents = [told(rules, seed) for seed in range(rules.num_players - 1)]
    person = load_policy("bot:random", rules)
    count, players = len(decks), rules.num_players
    seating = (np.arange(count)[:, None] + np.arange(players)) % players
    return agents, play_games(
        (person, *agents), rules, decks, SEED, seating=seating, games_per_series=count
    )


def as_series(games: Games) -> list[Game]:
    """Each game of `played` with its previous games."""
    found: list[Game] = []
    for number in range(len(games)):
        found.append(
            Game(
                number,
                games.rules,
                tuple(games.decks[number].tolist()),
                frozenset({number % games.rules.num_players}),
                moves=tuple(games.moves(number).tolist()),
                previous_games=found[-1].series if found else (),
            )
        )
    return found


def answers(runner: PartnerRunner, game: Game) -> list[int]:
    """Partners' actions at their turns, queried in order."""
    turns = [t for t in range(game.turn) if t % game.rules.num_players not in game.people]
    asked = [dataclasses.replace(game, moves=game.moves[:turn]) for turn in turns]
    return [runner.partner_action([each])[0].action for each in asked]


def theirs(game: Game) -> list[int]:
    return [
        move
        for turn, move in enumerate(game.moves)
        if turn % game.rules.num_players not in game.people
    ]


@pytest.fixture(scope="module")
def of_two() -> tuple[list[NetworkPolicy], list[Game]]:
    agents, games = played(LENIENT, evaluation_decks(LENIENT, GAMES, SEED))
    return agents, as_series(games)


def test_series_equals_play_games(of_two) -> None:
    agents, games = of_two
    runner = PartnerRunner(agents, LENIENT, slots=2, run=RUN)
    assert [answers(runner, game) for game in games] == [theirs(game) for game in games]
    alone = [
        dataclasses.replace(game, game_id=10 + i, previous_games=()) for i, game in enumerate(games)
    ]
    as_strangers = [answers(runner, game) for game in alone]
    assert as_strangers[0] == theirs(games[0])
    assert as_strangers[1:] != [theirs(game) for game in games[1:]]


def test_last_move_of_game_is_not_observed(of_two) -> None:
    """As in `play_games`, the position after the last move is not observed."""
    agents, games = of_two
    runner = PartnerRunner(agents, LENIENT, run=RUN)
    runner.partner_action([dataclasses.replace(games[-1], moves=())])
    own, person = runner.memory(games[-1].game_id).profile.counts[:, list(COUNTS).index("turn")]
    seen = [move % 2 in game.people for game in games[:-1] for move in range(game.turn - 1)]
    assert (own, person) == (seen.count(False), seen.count(True))


def test_runner_without_memory_replays_series(of_two, monkeypatch) -> None:
    """Starting at the last game, after `forget`, or with a small cache."""
    agents, games = of_two
    monkeypatch.setattr(series, "CACHE_SIZE", 1)
    runner = PartnerRunner(agents, LENIENT, slots=1, run=RUN)
    assert answers(runner, games[-1]) == theirs(games[-1])
    runner.forget()
    assert answers(runner, games[2]) == theirs(games[2])
    together = [dataclasses.replace(game, moves=game.moves[:1]) for game in games[1::2]]
    expected = [game.moves[1] for game in games[1::2] if 1 not in game.people]
    found = runner.partner_action(
        [game for game in together if game.current_player not in game.people]
    )
    assert [answer.action for answer in found] == expected


@pytest.mark.slow
def test_two_partners_remember_table_order() -> None:
    agents, games = played(LENIENT_3P, evaluation_decks(LENIENT_3P, GAMES, SEED))
    runner = PartnerRunner(agents, LENIENT_3P, slots=2, run=RUN)
    found = as_series(games)
    assert [answers(runner, game) for game in found] == [theirs(game) for game in found]
    with pytest.raises(ValueError, match="expected one person in a series, got 2"):
        runner.partner_action([dataclasses.replace(found[1], people=frozenset({0, 1}))], [(0,)])


def test_series_continues_over_restarts_until_reset(tmp_path) -> None:
    # three of them are replayed: as elsewhere, so the program is shared
    decks = evaluation_decks(LENIENT, 2, SEED, "people")[[0, 1] * (GAMES // 2)]
    agents, games = played(LENIENT, decks)

    def table(**how: bool) -> LocalPlay:
        return LocalPlay(
            LENIENT,
            ["told"],
            PartnerRunner(agents, LENIENT, run=RUN, series=tmp_path / "series"),
            GameFolder(tmp_path),
            SEED,
            [agent.identity() for agent in agents],
            True,
            **how,
        )

    def sit_down(play: LocalPlay, number: int, stop: int | None = None) -> Game:
        game = play.current()
        for turn, move in list(enumerate(games.moves(number).tolist()))[game.turn : stop]:
            if play.partner_to_move(game.game_id):
                answer = play.partner_action(game.game_id)
                assert answer.action == move, (number, turn)
                play.partner_moves(game.game_id, turn, answer)
            else:
                play.move(game.game_id, turn, move)
        return play.game(game.game_id)

    play = table()
    first, second = sit_down(play, 0), sit_down(play, 1)
    assert second.previous_games == (dataclasses.replace(first, previous_games=()),)
    cut = sit_down(table(), 2, stop=3)  # a new process
    assert [game.game_id for game in cut.previous_games] == [first.game_id, second.game_id]
    known = tmp_path / "series" / f"{second.game_id}.safetensors"
    known.write_bytes(b"what is no such file is made again")
    third = sit_down(table(), 2)  # killed between two moves
    assert known.stat().st_size > 100
    assert third.game_id == cut.game_id and third.previous_games == cut.previous_games
    note = json.loads((tmp_path / "series" / f"{third.game_id}.json").read_text())
    assert note["series"] == [first.game_id, second.game_id, third.game_id]
    assert note["policies"] == [agents[0].identity()]

    folder = GameFolder(tmp_path)  # killed again between the last move and the end
    (tmp_path / f"2p-{third.game_id}.safetensors").unlink()
    (tmp_path / "series" / f"{third.game_id}.json").unlink()
    folder.record(dataclasses.replace(third, status="active"), {1: "told"}, note["policies"])
    again = table()
    assert len(again.new_game().previous_games) == 3
    fresh = again.new_game(reset_memory=True)
    assert fresh.previous_games == () and again.leave(fresh.game_id)
    assert table(reset_memory=True).new_game().previous_games == ()
    other = LocalPlay(LENIENT, ["a"], Simple(), folder, SEED, ["another identity"], True)
    assert other.new_game().previous_games == ()
    (tmp_path / f"2p-{second.game_id}.safetensors").unlink()
    assert table().new_game().previous_games == ()  # one of the games was deleted


def test_memory_reset_survives_old_games_and_restarts(tmp_path) -> None:
    def table(**how: bool) -> LocalPlay:
        folder = GameFolder(tmp_path)
        return LocalPlay(LENIENT, ["a"], Simple(), folder, SEED, ["identity"], True, **how)

    def to_the_end(play: LocalPlay, game_id: int) -> None:
        while play.game(game_id).status == "active":
            game = play.game(game_id)
            answer = Simple().answer(game)
            if play.partner_to_move(game_id):
                play.partner_moves(game_id, game.turn, answer)
            else:
                play.move(game_id, game.turn, answer.action)

    play = table()
    to_the_end(play, play.new_game().game_id)
    before = play.new_game()
    assert len(before.previous_games) == 1
    fresh = play.new_game(reset_memory=True)
    assert play.current().game_id == fresh.game_id and play.leave(fresh.game_id)
    to_the_end(play, before.game_id)
    assert play.new_game().previous_games == ()
    assert table().new_game().previous_games == ()  # no moves in the first game after the reset
    balance = table(reset_memory=True)
    first = balance.current()
    assert first.previous_games == ()
    to_the_end(balance, first.game_id)
    assert [game.game_id for game in table().new_game().previous_games] == [first.game_id]


def test_agents_without_memory_have_no_series(tmp_path) -> None:
    play = LocalPlay(LENIENT, ["simple"], Simple(), GameFolder(tmp_path), SEED)
    for _ in range(2):
        game = play.new_game()
        if play.partner_to_move(game.game_id):
            play.partner_moves(game.game_id, 0, play.partner_action(game.game_id))
        else:
            play.move(game.game_id, 0, LENIENT.hand_size)  # plays a card
        play.leave(game.game_id)
        assert game.previous_games == ()
    assert not play.remembers and not (tmp_path / "series").exists()


def test_study_moves_are_reproducible_from_folder(of_two, tmp_path: Path) -> None:
    agent = of_two[0][0]
    asked = study_of(STUDY | {"agents": [{"name": "told", "games": 3}], "remember_people": True})
    partners = {"told": PartnerRunner([agent], LENIENT, run=RUN)}
    identities = {"told": agent.identity()}
    play = StudyPlay(StudyFolder(tmp_path, asked), LENIENT, partners, identities, ["told"])
    number = play.folder.join()[0].number
    for place in range(3):
        play_out(play, play.deal(play.folder.get(number), place))
    saved = StudyFolder(tmp_path, asked).get(number)
    assert saved is not None and {each.policy for each in saved.games} == {agent.identity()}
    runner = PartnerRunner([agent], LENIENT, slots=1, run=RUN)
    for each in reversed(saved.games):
        assert answers(runner, each.game) == theirs(each.game)
    assert [len(each.game.previous_games) for each in saved.games] == [0, 1, 2]


def play_out(play: StudyPlay, game_id: int) -> None:
    """Play the person's moves as `Simple` does."""
    while (game := play.game(game_id)).status == "active":
        if play.partner_to_move(game_id):
            play.partner_moves(game_id, game.turn, play.partner_action(game_id))
        else:
            play.move(game_id, game.turn, Simple().answer(game).action)


@pytest.mark.parametrize("asked", [True, False])
def test_study_series_is_optional(tmp_path: Path, asked: bool) -> None:
    """For agents with memory; read from the folder and exported with the games."""
    agents = [{"name": "bot:a", "games": 2}, {"name": "bot:b", "games": 2}]
    play = make_study_play(tmp_path, agents=agents, remember_people=asked, remembering=["bot:a"])
    person, _ = play.folder.join()
    for place in range(4):
        now = play.folder.get(person.number)
        play_out(play, play.deal(now, place))
    by_agent: dict[str, list[Game]] = {"bot:a": [], "bot:b": []}
    for each in play.folder.get(person.number).games:
        by_agent[each.agent].append(each.game)
    first, second = by_agent["bot:a"]
    before = [dataclasses.replace(first, previous_games=())]
    assert list(second.previous_games) == (before if asked else [])
    assert first.previous_games == () and not any(game.previous_games for game in by_agent["bot:b"])
    lines = gather(play.folder).lines
    told = {line["game_id"]: line["earlier"] for line in lines}
    assert told[second.game_id] == ([first.game_id] if asked else [])
    assert sum(map(bool, told.values())) == asked
