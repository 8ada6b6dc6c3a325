"""A study folder of an earlier version, with its keys: `old_study/`."""

import shutil
from pathlib import Path

import pytest
from support.games import TINY
from support.serving import Simple
from support.study import play_here, post

from hanabi_rl.cli import main
from hanabi_rl.launch.presets import configs_folder
from hanabi_rl.people.study.design import read_study
from hanabi_rl.people.study.export import SUFFIX, export_study, person_agent_data, read_export
from hanabi_rl.people.study.folder import StudyFolder, read_study_of
from hanabi_rl.people.study.participant import next_step
from hanabi_rl.people.study.play import StudyPlay
from hanabi_rl.storage.files import read_json, write_json

CODE = "383156-2345-6789-ABCD"
RENAMED = {
    "series": "remember_people",
    "questionable": "flag_moves",
    "check_right": "min_check_correct",
    "wait": "wait_s",
    "instead": "fallback_agent",
}


@pytest.fixture
def play(tmp_path):
    path = tmp_path / "study"
    shutil.copytree(Path(__file__).parent / "old_study", path)
    folder = StudyFolder(path, read_study_of(path))
    names = folder.study.policies
    identities = {name: f"identity of {name}" for name in names}
    return StudyPlay(folder, TINY, {name: Simple() for name in names}, identities, ["bot:a"])


def test_old_study_has_all_its_settings(play):
    saved = read_json(play.folder.path / "study.json")["study"]
    study = play.folder.study
    assert {new: getattr(study, new) for new in RENAMED.values()} == {
        new: saved[old] for old, new in RENAMED.items()
    }
    (question,), (old,) = study.check, saved["check"]
    assert (question.correct, question.explanation) == (old["right"], old["why"]) != ("", "")


def test_old_study_continues_and_reports(play, visit, tmp_path, capsys):
    person = play.folder.find(CODE)
    played, open_game = person.games
    assert played.game.end_reason == "finished" and played.flagged
    assert open_game.game.status == "active" and open_game.game.previous_games == (played.game,)
    client = visit(play)
    page = post(client, "/code", code=CODE)
    game = client.get("/next")
    assert page.status_code == 200 and game.url.path == f"/game/{open_game.game.game_id}"
    play_here(client, game)
    post(client, "/answer", step="game 2", q_trust="5")
    person = play.folder.find(CODE)
    assert person.answers["game 2"] == {"trust": 5}
    assert next_step(play.folder.study, person).name == "play"  # with a participant
    main(["games", "list", "--study", str(play.folder.path)])
    assert "next: play game 3; 2 of 3 games finished" in capsys.readouterr().out
    out = tmp_path / f"games{SUFFIX}"
    assert export_study(play.folder, out) == 2
    (data,) = person_agent_data(read_export(out))
    assert (data.agent, len(data.scores), data.flagged_moves) == ("bot:a", 2, 1)
    main(["study", "report", str(play.folder.path)])
    assert "bot:a" in capsys.readouterr().out


def test_old_export_is_read(play, tmp_path):
    out = tmp_path / f"games{SUFFIX}"
    export_study(play.folder, out)
    study, saved = out.with_suffix(".study.json"), read_json(play.folder.path / "study.json")
    write_json(study, read_json(study) | {"study": saved["study"]})
    assert read_export(out).study == play.folder.study


def test_old_names_of_agents_become_current_names(tmp_path):
    path = tmp_path / "study"
    shutil.copytree(Path(__file__).parent / "old_study", path)
    for file in (path / "study.json", *(path / "participants").iterdir()):
        file.write_text(file.read_text().replace('"bot:a"', '"agent:anyone-2p"'))
    study = read_study_of(path)
    folder = StudyFolder(path, study)
    (person,) = folder.participants()
    assert study.policies == ["agent:adhoc-2p", "bot:b"]
    assert {played.agent for played in person.games} == {"agent:adhoc-2p"}
    out = tmp_path / f"games{SUFFIX}"
    assert export_study(folder, out) == 1
    (data,) = person_agent_data(read_export(out))
    assert data.agent == "agent:adhoc-2p"


def test_old_name_of_an_agent_in_a_study_file_names_the_new_one(tmp_path):
    path = tmp_path / "study.toml"
    text = (configs_folder() / "study" / "example.toml").read_text()
    path.write_text(text.replace("agent:hgroup-2p", "agent:anyone-2p"))
    with pytest.raises(ValueError, match="agent:anyone-2p was renamed to agent:adhoc-2p$"):
        read_study(path)
