"""`hanabi-rl data` and `hanabi-rl replay` from the command line."""

import json

import numpy as np
import pytest
from starlette.testclient import TestClient
from support.games import as_games, red_alone

from hanabi_rl.cli import data, main
from hanabi_rl.data.files import load_games, save_games
from hanabi_rl.data.formats.hanab_live import decode_link
from hanabi_rl.data.formats.hanab_live_decks import deck_from_seed
from hanabi_rl.data.games import rotated_decks
from hanabi_rl.evaluation.measure.annotate import annotate
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.play import demos
from hanabi_rl.play.demos import generate


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("games") / "games.safetensors"
    save_games(path, generate(Rules(), "random", 20, seed=0))
    return path


def run(capsys, *args) -> str:
    main([str(arg) for arg in args])
    return capsys.readouterr().out


def test_info(file, capsys):
    games = load_games(file)
    text = run(capsys, "data", "info", file)
    assert (
        f"20 games of 2 players on 20 decks: 0 perfect, {(games.scores == 0).sum()} bombed, 0 "
        "unfinished" in text
    )
    stats = json.loads(run(capsys, "data", "info", file, "--json").splitlines()[-1])
    lengths = games.num_actions
    assert stats["lengths"] == {
        "min": lengths.min(),
        "max": lengths.max(),
        "mean": pytest.approx(lengths.mean()),
        "median": np.median(lengths),
        "std": pytest.approx(lengths.std()),
    }
    assert (stats["games"], stats["players"], stats["human_seats"]) == (20, 2, 40)


def test_info_of_several_files(file, capsys, tmp_path):
    """One block per file, as for each file alone; no output if one is not a file of games."""
    other = tmp_path / "other.json"
    run(capsys, "data", "convert", file, other)
    link = run(capsys, "replay", file, "--game", 3).splitlines()[-1]
    alone = [run(capsys, "data", "info", source) for source in (file, other, link)]
    assert run(capsys, "data", "info", file, other, link) == "".join(alone)
    records = run(capsys, "data", "info", file, other, "--json").splitlines()
    assert [json.loads(line)["file"] for line in records] == [str(file), str(other)]
    with pytest.raises(SystemExit):
        run(capsys, "data", "info", file, tmp_path / "none.json")
    out, err = capsys.readouterr()
    assert out == "" and "none.json, which does not exist" in err


def test_info_lists_hanab_live_deals(file, capsys, tmp_path):
    text = run(capsys, "data", "info", file)
    assert "hanab.live seeds" not in text  # no deck is a deal
    assert "20 games: 0 with a hanab.live seed" in run(capsys, "data", "info", file, "--seeds")
    numbers, rules = [3, 20_001, 5], Rules(num_players=3)
    tables = [PythonGame(rules, deck_from_seed(f"p3v0s{number}")) for number in numbers]
    tables[2] = PythonGame(rules, rotated_decks(rules, np.array([tables[2].deck]))[0, 2])
    for table in tables:
        table.apply(rules.hand_size)
    path = tmp_path / "dealt.safetensors"
    save_games(path, as_games(rules, tables, [np.array([rules.hand_size], np.int32)] * 3))
    text = run(capsys, "data", "info", path, "--seeds")
    assert "3 games: 2 with a hanab.live seed, 1 of them started by a seat other" in text
    rows = [line.split() for line in text.splitlines()[-3:]]
    assert rows == [["0", "p3v0s3", "0"], ["1", "-", "-"], ["2", "p3v0s5", "2"]]
    found = json.loads(run(capsys, "data", "info", path, "--max-seed", 20_001, "--json"))["seeds"]
    assert found == [
        {"game_id": 0, "seed": "p3v0s3", "rotation": 0},
        {"game_id": 1, "seed": "p3v0s20001", "rotation": 0},
        {"game_id": 2, "seed": "p3v0s5", "rotation": 2},
    ]


def test_one_game_is_one_game(file, capsys, tmp_path):
    one = tmp_path / "one.safetensors"
    save_games(one, load_games(file).select([0]))
    assert "1 game of 2 players on 1 deck: " in run(capsys, "data", "info", one)
    text = run(capsys, "data", "convert", one, tmp_path / "one.jsonl")
    assert text.splitlines()[0].endswith("one.jsonl: 1 game")
    main(["data", "split", str(file), "--sizes", "1", "--out", str(tmp_path)])
    assert "games_train.safetensors: 1 game on 1 deck, mean" in capsys.readouterr().out
    main(["behaviour", str(one)])
    assert "1 game: " in capsys.readouterr().out


def test_invalid_games_are_rejected_or_skipped(file, capsys, tmp_path):
    mixed, clean = tmp_path / "mixed.jsonl", tmp_path / "clean.safetensors"
    run(capsys, "data", "convert", file, mixed)
    lines = mixed.read_text().splitlines()
    odd = [json.dumps(json.loads(line) | {"players": []}) for line in lines[:7]]
    mixed.write_text("\n".join([*lines, *odd]))
    for command in (["info", mixed], ["convert", mixed, clean], ["split", mixed, "--sizes", 5]):
        with pytest.raises(SystemExit) as caught:
            run(capsys, "data", *command, *(["--out", tmp_path] if command[0] == "split" else []))
        err = capsys.readouterr().err
        assert caught.value.code == 2 and len(err.splitlines()) == 1
        assert "game 20 (game_id 0): expected 2-5 players, got 0 (--skip-invalid skips" in err
    assert sorted(tmp_path.iterdir()) == [mixed]
    main(["data", "info", str(mixed), "--skip-invalid", "--json"])
    out, err = capsys.readouterr()
    assert (json.loads(out)["games"], json.loads(out)["skipped"]) == (20, 7)
    skipped = f"{mixed}: 7 of 27 games skipped; by ending: 7 unknown"
    assert err.splitlines()[-2:] == ["... and 2 more", skipped]
    assert err.count("skipped: ") == 5
    run(capsys, "data", "convert", mixed, clean, "--skip-invalid")
    np.testing.assert_array_equal(load_games(clean).actions, load_games(file).actions)
    run(capsys, "data", "split", mixed, "--sizes", 5, "--out", tmp_path, "--skip-invalid")
    assert len(load_games(tmp_path / "mixed_train.jsonl")) == 5


def test_replay_link_is_read_like_a_file(file, capsys, tmp_path):
    link = run(capsys, "replay", file, "--game", 3).splitlines()[-1]
    link = link.replace("https://hanab.live/shared-replay-json/", "www.hanab.live/replay-json/")
    assert json.loads(run(capsys, "data", "info", link, "--json"))["games"] == 1
    run(capsys, "data", "convert", link, tmp_path / "one.json")
    moves = load_games(file).moves(3)
    np.testing.assert_array_equal(load_games(tmp_path / "one.json").moves(0), moves)
    assert "1 game: " in run(capsys, "behaviour", link)


def test_convert(file, capsys, tmp_path):
    text = run(capsys, "data", "convert", file, tmp_path / "games.jsonl")
    assert "games.jsonl: 20 games" in text
    assert ".jsonl does not store the names of players" in text
    back = tmp_path / "games.jsonl", tmp_path / "again.safetensors"
    assert "does not store" not in run(capsys, "data", "convert", *back)
    games, again = load_games(file), load_games(tmp_path / "again.safetensors")
    np.testing.assert_array_equal(again.decks, games.decks)
    np.testing.assert_array_equal(again.actions, games.actions)


def lost_at_the_end():
    """A game that loses three lives when no more points are possible: score 0, 5 points."""
    table, moves = red_alone(lose=True)
    games = as_games(table.rules, [table], [np.array(moves, np.int32)])
    assert (games.scores.tolist(), table.points, table.life_tokens) == ([0], 5, 0)
    return games


def test_demos_reports_games_as_written(capsys, tmp_path, monkeypatch):
    """hanab.live ends games when no more points are possible: there the game keeps its points."""
    games = lost_at_the_end()
    changed = "1 game ends earlier, as on hanab.live: no more points were possible; 1 of them"
    monkeypatch.setattr(demos, "demo_games", lambda *args: games)
    for name, bombed, score in (("a.safetensors", 1, 0), ("a.json", 0, 5)):
        out = tmp_path / name
        text = run(capsys, "data", "demos", "--games", 1, "--out", out)
        assert f"{out}: 1 game of 2 players" in text and f" {bombed} bombed" in text
        assert (changed in text) == (name == "a.json")
        assert run(capsys, "data", "info", out).splitlines()[0] == text.splitlines()[0]
        assert load_games(out).scores.tolist() == [score]
    text = run(capsys, "data", "convert", tmp_path / "a.safetensors", tmp_path / "b.json")
    assert text.startswith(f"{tmp_path / 'b.json'}: 1 game\n") and changed in text


def test_split(file, capsys, tmp_path):
    run(capsys, "data", "split", file, "--fractions", 0.8, 0.1, 0.1, "--out", tmp_path)
    parts = [
        load_games(tmp_path / f"games_{name}.safetensors") for name in ("train", "val", "test")
    ]
    assert [len(part) for part in parts] == [16, 2, 2]
    run(capsys, "data", "split", file, "--sizes", 5, 5, "--seed", 1, "--out", tmp_path)
    assert len(load_games(tmp_path / "games_val.safetensors")) == 5


def test_replay(file, capsys):
    games = load_games(file)
    text = run(capsys, "replay", file, "--game", 3)
    assert text.count(" to move.") == games.num_actions[3]
    link = text.splitlines()[-1]
    assert link.endswith("#1")
    np.testing.assert_array_equal(decode_link(link).actions, games.moves(3))
    assert run(capsys, "replay", link) == text.rpartition("\n\n")[0] + "\n"
    text = run(capsys, "replay", file, "--game", 3, "--turn", 2)
    assert text.startswith("Turn 2, Bob to move.")
    assert text.count(" to move.") == 1 and text.splitlines()[-1].endswith("#2")


def test_link_has_only_game_0(file, capsys):
    link = run(capsys, "replay", file).splitlines()[-1]
    for game in ("7", "-1"):
        with pytest.raises(SystemExit):
            main(["replay", link, "--game", game])
        expected = f"--game: expected 0 for a link, which has one game, got {game}"
        assert expected in capsys.readouterr().err


def test_replay_in_the_browser(file, capsys, monkeypatch):
    shown = []

    def run_page(app, listening, about, path, *, open_browser):
        listening.close()
        page = TestClient(app, base_url="http://127.0.0.1").get(f"/{path}")
        shown.append((page.status_code, path, "Game 3 of 0 to 19" in page.text, open_browser))

    monkeypatch.setattr(data, "run_page", run_page)
    run(capsys, "replay", file, "--game", 3, "--browser", "--no-browser", "--port", 0)
    link = run(capsys, "replay", file, "--game", 3).splitlines()[-1]
    run(capsys, "replay", link, "--browser", "--port", 0)
    assert shown == [(200, "game/3", True, False), (200, "game/0", False, True)]


def test_replay_with_conventions(file, capsys):
    games = load_games(file)
    text = run(capsys, "replay", file, "--game", 3, "--conventions")
    notes = annotate(games.rules, games.decks[3], games.moves(3))
    said = [line for line in text.splitlines() if line.startswith("  ") and line.endswith(")")]
    assert [line.rpartition(" (")[2][:-1] for line in said] == [str(note) for note in notes]


def test_demos(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("HANABI_RL_CACHE", str(tmp_path / "cache"))
    out = tmp_path / "new" / "demos.jsonl"
    text = run(capsys, "data", "demos", "--bot", "random", "--games", 20, "--out", out)
    assert f"{out}: 20 games of 2 players" in text
    assert len(load_games(out)) == 20
    assert len(list((tmp_path / "cache" / "demos").iterdir())) == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["data", "info", "nowhere.safetensors"],
            "expected a file of games, got nowhere.safetensors",
        ),
        (["data", "split", "FILE"], "either --fractions or --sizes"),
        (
            ["data", "split", "FILE", "--fractions", "0.5", "0.6"],
            "positive fractions that add to 1",
        ),
        (
            ["data", "convert", "FILE", "games.pickle"],
            "ending in .safetensors, .json, .jsonl, .openspiel, got games.pickle",
        ),
        (["replay", "FILE", "--game", "20"], "expected --game in 0..19, got 20"),
        (["replay", "FILE", "--game", "20", "--browser"], "expected --game in 0..19, got 20"),
        (["replay", "FILE", "--turn", "0"], "expected a turn in 1.."),
        (["replay", "https://hanab.live/replay/12#3"], "save https://hanab.live/export/12 as 12."),
        (["data", "info", "hanab.live/shared-replay/12"], "save https://hanab.live/export/12 as"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(file, capsys, args, message):
    with pytest.raises(SystemExit) as caught:
        main([str(file) if arg == "FILE" else arg for arg in args])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err
