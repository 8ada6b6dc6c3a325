"""What is known of whom an agent met, and of the games that it learnt from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.games import TINY
from support.policies import network_policy

from hanabi_rl.agents import provenance
from hanabi_rl.agents.policy_folder import CLONE_FOLDER, FILE, save_policy
from hanabi_rl.agents.provenance import describe_data_overlap, training_partners

CARD = {
    "3p_human_train_180.safetensors": "learnt from 3p_human_train_180.safetensors itself",
    "3p_human_val_41.safetensors": "did not learn from 3p_human_val_41.safetensors",
    "others.json": "learnt from 180 games of people",
}


@pytest.mark.parametrize(("file", "words"), CARD.items())
def test_of_an_agent_by_its_card(file: str, words: str) -> None:
    assert (describe_data_overlap("agent:human-3p?safe=0.6,0.1", Path("there") / file) or "")[
        :60
    ].startswith(words[:60])


def test_of_a_run_by_its_config(tmp_path: Path) -> None:
    """A clone's games are its own fields, those of a policy made of one are of its `bc`."""
    games = {"data": ["there/a.json"], "val": ["there/b.json"]}
    for name, config in {"clone": games, "policy": {"bc": games}}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({"config": config}))
        said = [
            describe_data_overlap(str(tmp_path / name), Path(f"{file}.json")) or ""
            for file in "abc"
        ]
        assert [words[:18] for words in said] == [
            "learnt from a.json",
            "did not learn from",
            "learnt from there/",
        ]


@pytest.mark.parametrize("said", ['{"model_type": "bert"}', "[1]", "// none", '{"config": 1}'])
def test_beside_a_config_of_another_program(tmp_path: Path, said: str) -> None:
    (tmp_path / "config.json").write_text(said)
    assert training_partners(str(tmp_path / "mine")) == ()
    assert describe_data_overlap(str(tmp_path / "mine"), Path("a.json")) is None


def test_of_a_card_with_an_apostrophe(monkeypatch: pytest.MonkeyPatch) -> None:
    card = {"command": "my friend's script --data a.json"}
    monkeypatch.setattr(provenance, "read_model_card", lambda name: card)
    assert describe_data_overlap("mine.safetensors", Path("a.json")) == (
        "learnt from a.json itself, so that its prediction flatters it"
    )


@pytest.mark.parametrize("flag", ["--data", "--bc.data"])
def test_of_a_card_whose_command_has_its_file_behind_an_equals_sign(
    monkeypatch: pytest.MonkeyPatch, flag: str
) -> None:
    card = {"command": f"train/x.py --val=b.json {flag}=there/a.json c.json --val b.json d.json"}
    monkeypatch.setattr(provenance, "read_model_card", lambda name: card)
    said = [describe_data_overlap("mine", Path(f"{file}.json")) or "" for file in "abcd"]
    assert [words.split(",")[0] for words in said] == [
        "learnt from a.json itself",
        "did not learn from b.json",
        "learnt from there/a.json",
        "did not learn from d.json",
    ]


def test_of_no_games() -> None:
    assert describe_data_overlap("bot:convention", Path("a.json")) is None
    assert "no recorded games" in (describe_data_overlap("agent:ippo-2p", Path("a.json")) or "")


def test_of_data_that_nobody_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `hanabi-rl export` writes the card of a run without --data: nothing is known."""
    monkeypatch.setattr(
        provenance, "read_model_card", lambda name: {"data": provenance.NOT_RECORDED, "command": ""}
    )
    assert describe_data_overlap("mine.safetensors", Path("a.json")) is None


def run_of(folder: Path, algorithm: str = "best_response", **config: Any) -> str:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"algorithm": algorithm, "config": config}))
    return str(folder)


def test_renamed_agents_of_old_runs_are_recognised(tmp_path: Path) -> None:
    old = {"start_from": "agent:human-3p-robust", "partners": ["agent:anyone-3p?noise=0.1"]}
    first, second, *others = training_partners(run_of(tmp_path / "1", **old))
    assert (first, second) == ("agent:adhoc-3p?noise=0.1", "agent:human-3p-population")
    assert others == [f"Q{i}?temperature=0.3" for i in range(1, 9)]


def test_whom_an_agent_began_as_was_met_and_whom_that_one_met(tmp_path: Path) -> None:
    """Over runs and cards, each once, nearest first."""
    card = "agent:human-3p-population"
    of_card = tuple(f"Q{i}?temperature=0.3" for i in range(1, 9))
    assert training_partners(card) == of_card
    first = run_of(tmp_path / "1", init_from=card, partners=["bot:iggi", "bot:iggi", of_card[0]])
    second = run_of(tmp_path / "2", init_from=first, partners=["bot:smart", "bot:iggi"])
    met = ("bot:smart", "bot:iggi", first, of_card[0], card, *of_card[1:])
    assert (
        training_partners(second) == training_partners(f"{second}/checkpoints/5?noise=0.1") == met
    )
    clone = {"data": [], "init_from": second}
    for name, algorithm, config, expected in (
        ("3", "hdr_ippo", {"bc": clone, "partners": []}, (second, *met)),
        ("4", "hdr_ippo", {"bc": {"init_from": first}, "bc_policy": second}, (second, *met)),
        ("5", "obl", {"previous_level": second}, (second, *met)),
        # begins with random parameters, beside the clone, which is all that it met
        ("6", "br_bc", {"bc": clone, "bc_policy": None}, (second, first, card)),
        ("7", "br_bc", {"bc": clone, "bc_policy": first, "partners": ["a"]}, ("a", first, card)),
        ("8", "bc", {"data": [], "init_from": None}, ()),
    ):
        assert training_partners(run_of(tmp_path / name, algorithm, **config)) == expected, name
    beside = run_of(tmp_path / "9", init_from=str(tmp_path / "7"), partners=["b"])
    assert training_partners(beside) == ("b", str(tmp_path / "7"), "a", first, card)


def test_runs_that_began_as_each_other_or_as_what_is_gone(tmp_path: Path) -> None:
    places = [str(tmp_path / name) for name in "abc"]
    for place, start in zip(places, [places[1], places[0], "agent:gone"], strict=True):
        run_of(Path(place), init_from=start, partners=[f"bot:of-{place[-1]}"])
    assert training_partners(places[0]) == ("bot:of-a", places[1], "bot:of-b", places[0])
    assert training_partners(places[2]) == ("bot:of-c", "agent:gone")
    assert describe_data_overlap(places[0], Path("x.json")) is not None


def test_games_that_reached_an_agent_through_whom_it_began_as(tmp_path: Path) -> None:
    """Learnt from is what any of them learnt from; it is denied where all of them are known."""
    old = run_of(tmp_path / "old", "bc", data=["there/a.json"], val=["b.json"])
    new = run_of(tmp_path / "new", "bc", data=["c.json"], val=["d.json"], init_from=old)
    best = run_of(tmp_path / "best", init_from=new, partners=["bot:simple"])
    hdr = run_of(tmp_path / "hdr", "hdr_ippo", bc_policy=None, bc={"init_from": old})
    own = run_of(tmp_path / "own", "br_bc", bc={"data": ["e.json"], "init_from": new})
    given = run_of(tmp_path / "given", "br_bc", bc_policy=new, bc={"data": []})
    best_of = run_of(tmp_path / "best_of", init_from=given)
    itself, by_name = "itself, so that its prediction flatters it", "by its name"
    for agent, file, words in (
        (new, "c.json", f"learnt from c.json {itself}"),
        (new, "a.json", f"learnt from c.json; began as {old}, which learnt from a.json {itself}"),
        (
            new,
            "d.json",
            f"did not learn from d.json, by which an epoch was chosen; began as {old}, which "
            f"learnt from there/a.json, not from d.json {by_name}",
        ),
        (hdr, "a.json", f"began as {old}, which learnt from a.json {itself}"),
        (own, "e.json", f"learnt from e.json {itself}"),
        (
            own,
            "c.json",
            f"learnt from e.json; its clone is, or began as, {new}, which learnt from c.json "
            f"{itself}",
        ),
        (given, "c.json", f"its clone is, or began as, {new}, which learnt from c.json {itself}"),
        (
            best_of,
            "c.json",
            f"began as {given}; the clone is, or began as, {new}, which learnt from c.json "
            f"{itself}",
        ),
        (
            best,
            "x.json",
            f"began as {new}, which learnt from c.json, not from x.json {by_name}; that one "
            f"began as {old}, which learnt from there/a.json, not from x.json {by_name}",
        ),
    ):
        assert describe_data_overlap(agent, Path("elsewhere") / file) == words, (agent, file)


def test_games_beside_a_given_clone_are_not_learnt_from(tmp_path: Path) -> None:
    """--bc.data and --bc.val are for a clone that is trained: with --bc-policy none is."""
    clone = run_of(tmp_path / "clone", "bc", data=["a.json"], val=["b.json"])
    unread = {"data": ["c.json"], "val": ["d.json"]}
    hdr = run_of(tmp_path / "hdr", "hdr_ippo", bc_policy=clone, bc=unread)
    for file, words in (
        ("a", "learnt from a.json itself, so that its prediction flatters it"),
        ("b", "did not learn from b.json, by which an epoch was chosen"),
        ("c", "learnt from a.json, not from c.json by its name"),
        ("d", "learnt from a.json, not from d.json by its name"),
    ):
        assert (
            describe_data_overlap(hdr, Path(f"{file}.json")) == f"began as {clone}, which {words}"
        )
    policy = network_policy(TINY, seed=0)
    assert [provenance.run_metadata(name, policy)["data"] for name in (hdr, clone)] == [
        "a.json"
    ] * 2


def test_the_clone_that_a_run_keeps_is_the_clone(tmp_path: Path) -> None:
    """It met nobody whom the run met."""
    met = {"init_from": "bot:iggi", "data": ["a.json"]}
    clone = run_of(tmp_path / "clone", "bc", **met)
    given = run_of(tmp_path / "given", "br_bc", bc_policy=clone, bc={}, partners=["bot:simple"])
    own = run_of(tmp_path / "own", "hdr_ippo", bc_policy=None, bc=met, partners=["bot:simple"])
    run_of(tmp_path / "own" / "bc", "bc", **met)
    for run, began in ((given, (clone, "bot:iggi")), (own, ("bot:iggi",))):
        kept = f"{run}/{CLONE_FOLDER}"
        save_policy(kept, network_policy(TINY, seed=0), algorithm="bc", steps=1, score=None)
        for name in (kept, f"{kept}/{FILE}", f"{kept}?noise=0.1"):
            assert training_partners(name) == ("bot:iggi",), name
            assert describe_data_overlap(name, Path("a.json")) == describe_data_overlap(
                clone, Path("a.json")
            ), name
        assert training_partners(f"{run}/policy") == ("bot:simple", *began)
    gone = run_of(tmp_path / "gone", "br_bc", bc_policy="agent:gone", partners=["bot:simple"])
    assert training_partners(f"{gone}/{CLONE_FOLDER}") == ()


def test_what_an_agent_began_as_may_have_learnt_is_not_denied(tmp_path: Path) -> None:
    gone = run_of(tmp_path / "1", "bc", data=["a.json"], val=["b.json"], init_from="no/such")
    assert describe_data_overlap(gone, Path("x.json")) == (
        "learnt from a.json; began as no/such, whose data is not noted"
    )
    assert describe_data_overlap(gone, Path("b.json")) == (
        "had an epoch chosen by b.json; began as no/such, whose data is not noted"
    )
    prior = run_of(tmp_path / "2", "bc", data=["a.json"], init_from="agent:pretrained-3p")
    words = describe_data_overlap(prior, Path("x.json")) or ""
    assert words.startswith(
        "learnt from a.json; began as agent:pretrained-3p, which learnt from 10,500"
    )
    assert words.endswith("whether x.json is of them its card does not say")
    alone = run_of(tmp_path / "3", "bc", data=["a.json"], init_from="agent:ippo-2p")
    assert describe_data_overlap(alone, Path("x.json")) == (
        "learnt from a.json, not from x.json by its name; began as agent:ippo-2p, which learnt "
        "from no recorded games, as far as its card says"
    )
