"""Study files, orders of agents, and participant data."""

import collections
import dataclasses
import itertools
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.games import TINY
from support.serving import STUDY, make_study_play

from hanabi_rl.cli.study import _bundled
from hanabi_rl.launch.presets import configs_folder
from hanabi_rl.people.study.design import AFTER_GAME, orders, read_study, study_of
from hanabi_rl.people.study.folder import StudyFolder, WithdrawnError, read_study_of
from hanabi_rl.people.study.participant import next_step
from hanabi_rl.people.study.play import StudyPlay

CONFIGS = Path(__file__).parents[3] / "configs" / "study"


@pytest.mark.parametrize("agents", range(1, 8))
def test_orders_are_balanced(agents):
    square = orders(agents)
    assert all(sorted(order) == list(range(agents)) for order in square)
    for place in range(agents):
        counts = collections.Counter(order[place] for order in square)
        assert set(counts.values()) == {len(square) // agents} and len(counts) == agents
    follows = collections.Counter(pair for order in square for pair in itertools.pairwise(order))
    assert len(follows) == agents * (agents - 1) and len(set(follows.values())) <= 1
    assert len(square) == agents * (2 if agents % 2 and agents > 1 else 1)


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.stem)
def test_bundled_studies_are_valid(path, tmp_path):
    study = read_study(path)
    StudyFolder(tmp_path, study)
    assert read_study_of(tmp_path) == study


def test_study_defaults_to_reference_questions():
    assert study_of(STUDY).after_game == AFTER_GAME
    assert study_of(STUDY | {"after_game": []}).after_game == ()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"titel": "x"}, "unknown field 'titel'; expected one of "),
        ({"title": " "}, "study: title: expected a text, got ' '"),
        ({"contact": 7}, "study.contact: expected str, got 7"),
        ({"order": "abba"}, "study.order: expected one of 'latin', 'random', got 'abba'"),
        ({"players": 6}, "study: players: expected 2 to 5, got 6"),
        ({"participants": 0}, "study: participants: expected 1 or more, got 0"),
        ({"consent": {"text": "yes"}}, "study: consent.version: expected a text, got ''"),
        ({"agents": []}, "study: agents: expected one [[agents]] or more, got none"),
        ({"agents": {"name": "a"}}, "study: agents: expected a list of tables, got {"),
        ({"agents": [{"games": 1}]}, "study: agents[0].name: expected a text, got ''"),
        (
            {"agents": [{"name": "a", "games": 0}]},
            "agents[0].games: expected 1 or more, got 0",
        ),
        ({"agents": [{"name": "a"}] * 2}, "agents: expected every agent once, got 'a' twice"),
        ({"agents": [{"name": "a", "warm_up": 1}]}, "warm_up: expected 0 to 0, got 1"),
        (
            {
                "agents": [{"name": "a"}],
                "at_end": [{"name": "x", "text": "?", "rating": True}],
            },
            "at_end: rating: expected two agents to compare, got 1",
        ),
        ({"min_check_correct": 1}, "min_check_correct: expected 0 to 0, got 1"),
        ({"instead": "bot:b"}, "study: instead was renamed to fallback_agent"),
        (
            {"check": [{"name": "a", "text": "?", "kind": "choice", "choices": ["x", "y"]}]},
            "check[0].correct: expected one of the choices, got ''",
        ),
        ({"check": [{"why": "x"}]}, "study: check[0]: why was renamed to explanation"),
        ({"before": [{"name": "x"}]}, "study: before[0].text: expected a text"),
        (
            {"at_end": [{"name": "no way", "text": "?"}]},
            "at_end[0].name: expected a name of letters, digits and _, got 'no way'",
        ),
        (
            {"at_end": [{"name": "a", "text": "?", "kind": "choice", "choices": ["only"]}]},
            "at_end[0].choices: expected two or more for a choice and none for another kind, got 1",
        ),
        ({"at_end": [{"name": "a", "text": "?", "kind": "yes"}]}, "at_end[0].kind: expected one"),
    ],
)
def test_invalid_study_names_field_and_expected_value(change, expected):
    with pytest.raises(ValueError, match=re.escape(expected)):
        study_of(STUDY | change)


def test_invalid_toml_names_the_file(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text("title = \n")
    with pytest.raises(ValueError, match=r"bad\.toml: expected TOML: .*line 1"):
        read_study(path)


def test_orders_are_counterbalanced_after_withdrawals(tmp_path):
    folder = make_study_play(tmp_path).folder
    people = [folder.join()[0] for _ in range(5)]
    assert [person.order for person in people] == [0, 1, 0, 1, 0]
    assert [person.plan[0][0] for person in people] == [0, 1, 0, 1, 0]
    folder.withdraw(people[1].number, "the operator")
    folder.withdraw(people[3].number, "the operator")
    assert [folder.join()[0].order for _ in range(3)] == [1, 1, 1]
    with pytest.raises(ValueError, match="it needs no more participants"):
        folder.join()


def test_seats_alternate_and_random_orders_vary(tmp_path):
    agents = [{"name": name, "games": 2} for name in ("a", "b", "c")]
    folder = make_study_play(tmp_path, agents=agents, order="random", participants=40).folder
    plans = [folder.join()[0].plan for _ in range(40)]
    for plan in plans:
        assert [agent for agent, _ in plan[::2]] == [agent for agent, _ in plan[1::2]]
        assert all({plan[i][1], plan[i + 1][1]} == {0, 1} for i in (0, 2, 4))
    assert len({tuple(agent for agent, _ in plan) for plan in plans}) > 1


def test_code_opens_only_its_participant(tmp_path):
    folder = make_study_play(tmp_path).folder
    (person, code), (other, another) = folder.join(), folder.join()
    assert folder.find(code) == person and folder.find(f" {code.lower()} ") == person
    assert folder.find(another) == other
    mixed = another[:6] + code[6:]
    for wrong in ("", "x", code[:-1], code[:-1] + "!", mixed, "../study"):
        assert folder.find(wrong) is None
    assert code[7:] not in "".join(p.read_text() for p in tmp_path.rglob("*") if p.is_file())


def test_withdrawal_leaves_only_audit_line(tmp_path):
    play = make_study_play(tmp_path)
    person, code = play.folder.join()
    game_id = play.deal(person, 0)
    play.folder.change(person.number, lambda now: now.with_answers("before", {"played": "SECRET"}))
    half = play.folder.path / "participants" / f".{person.number:06d}.json.77.tmp"
    half.write_text("SECRET")  # partial write of a killed server
    assert str(game_id) in everything(tmp_path) and "SECRET" in everything(tmp_path)
    assert play.folder.withdraw(person.number, "the operator")
    left = everything(tmp_path)
    for trace in (str(game_id), "SECRET", person.code_hash, code[7:], "identity of"):
        assert trace not in left
    line = json.loads((tmp_path / "audit.jsonl").read_text())
    assert line["participant"] == person.number and line["what"] == "withdrawn"
    assert not play.folder.withdraw(person.number, "the operator")
    with pytest.raises(WithdrawnError):
        play.leave(game_id)
    assert not list((tmp_path / "participants").iterdir())


def test_study_can_change_until_the_first_participant(tmp_path):
    first = make_study_play(tmp_path).folder
    another = dataclasses.replace(first.study, title="Another")
    with pytest.raises(ValueError, match="the study differs from the folder's"):
        StudyFolder(tmp_path, another)  # a command, while a server may run
    folder = StudyFolder(tmp_path, another, change=True)
    assert read_study_of(tmp_path) == another and folder.tag == first.tag
    folder.join()
    with pytest.raises(ValueError, match="the study differs from the folder's"):
        StudyFolder(tmp_path, first.study, change=True)


def test_participant_withdrawn_while_files_are_read_is_skipped(tmp_path):
    folder = make_study_play(tmp_path).folder
    person, _ = folder.join()
    (tmp_path / "participants" / "000001.json").symlink_to("deleted")
    assert folder.participants() == [person]


def test_changed_agent_is_refused(tmp_path):
    """Refused once a game was played with it; a run that was trained further is another agent."""
    play = make_study_play(tmp_path)
    folder, (person, _) = play.folder, play.folder.join()
    play.deal(person, 0)
    first = folder.get(person.number).games[0].agent
    same = {name: f"identity of {name}" for name in ("bot:a", "bot:b")}
    partners = dict.fromkeys(same, None)
    other = ({*same} - {first}).pop()
    StudyPlay(folder, TINY, partners, same | {other: "retrained"})  # no game with it yet
    with pytest.raises(ValueError, match="another --state, or the original agent") as found:
        StudyPlay(folder, TINY, partners, same | {first: "retrained"})
    file = tmp_path / "participants" / f"{person.number:06d}.json"
    expected = f"{file}: {first} has changed since game 1 (identity of {first}, now retrained): "
    assert str(found.value).startswith(expected)
    assert folder.withdraw(person.number, "the operator")
    StudyPlay(folder, TINY, partners, same | {first: "retrained"})


def test_next_step_through_whole_study(tmp_path):
    play = make_study_play(tmp_path)
    folder, study = play.folder, play.folder.study
    person, _ = folder.join()
    seen = []
    while (step := next_step(study, person)) != ("done", 0):
        seen.append(step)
        if step[0] == "play":
            to_end(play, play.deal(person, step[1]))
            person = folder.get(person.number)
        else:
            person = folder.change(
                person.number, lambda now, name=step.name: now.with_answers(name, {})
            )
    assert seen == [("before", 0), ("play", 0), ("after", 0), ("play", 1), ("after", 1), ("end", 0)]
    for played in person.games:
        assert len(played.times_ms) == played.game.turn
        assert list(played.times_ms) == sorted(played.times_ms)
    again = make_study_play(tmp_path)  # a restarted server
    assert again.game(person.games[0].game.game_id) == person.games[0].game


def test_concurrent_joins_respect_participant_limit(tmp_path):
    make_study_play(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        joined = list(pool.map(_join, [tmp_path] * 8))
    assert sorted(map(bool, joined)) == [False] * 2 + [True] * 6
    assert len({number for number in joined if number}) == 6


def test_bundled_study_is_found_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = _bundled(Path("example"))
    assert path == configs_folder() / "study" / "example.toml" and read_study(path).title
    assert _bundled(path) is None and _bundled(Path("nobody")) is None
    Path("example").write_text("a file of one's own")
    assert _bundled(Path("example")) is None


def _join(path):
    folder = StudyFolder(path, study_of(STUDY))
    try:
        return folder.join()[0].number + 1
    except ValueError:
        return 0


def to_end(play, game_id):
    """The participant takes the first legal move."""
    while (game := play.game(game_id)).status == "active":
        if play.partner_to_move(game_id):
            play.partner_moves(game_id, game.turn, play.partner_action(game_id))
        else:
            allowed = [a for a in play.frame(game_id)["actions"] if a["why_not"] is None]
            play.move(game_id, game.turn, allowed[-1]["id"])


def everything(folder):
    return "\n".join(
        f"{path.name} {path.read_text(errors='replace')}"
        for path in folder.rglob("*")
        if path.is_file()
    )
