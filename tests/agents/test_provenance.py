"""Provenance of agents: training partners and overlap with games."""

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
    "3p_human_train_180.safetensors": "trained on 3p_human_train_180.safetensors",
    "3p_human_val_41.safetensors": "selected an epoch on 3p_human_val_41.safetensors",
    "others.json": "trained on 180 human games",
}


@pytest.mark.parametrize(("file", "words"), CARD.items())
def test_data_overlap_from_card(file: str, words: str) -> None:
    assert (describe_data_overlap("agent:human-3p?safe=0.6,0.1", Path("there") / file) or "")[
        :60
    ].startswith(words[:60])


def test_data_overlap_from_run_config(tmp_path: Path) -> None:
    """A clone's games are in its own config, those of an HDR-IPPO policy in its `bc` config."""
    games = {"data": ["there/a.json"], "val": ["there/b.json"]}
    for name, config in {"clone": games, "policy": {"bc": games}}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({"config": config}))
        overlaps = [
            describe_data_overlap(str(tmp_path / name), Path(f"{file}.json")) or ""
            for file in "abc"
        ]
        assert [words[:18] for words in overlaps] == [
            "trained on a.json,",
            "selected an epoch ",
            "trained on there/a",
        ]


@pytest.mark.parametrize("text", ['{"model_type": "bert"}', "[1]", "// none", '{"config": 1}'])
def test_foreign_config_is_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    assert training_partners(str(tmp_path / "mine")) == ()
    assert describe_data_overlap(str(tmp_path / "mine"), Path("a.json")) is None


def test_card_command_with_apostrophe(monkeypatch: pytest.MonkeyPatch) -> None:
    card = {"command": "my friend's script --data a.json"}
    monkeypatch.setattr(provenance, "read_model_card", lambda name: card)
    assert describe_data_overlap("mine.safetensors", Path("a.json")) == (
        "trained on a.json, so its predictions there are optimistic"
    )


@pytest.mark.parametrize("flag", ["--data", "--bc.data"])
def test_card_command_with_equals_sign(monkeypatch: pytest.MonkeyPatch, flag: str) -> None:
    card = {"command": f"train/x.py --val=b.json {flag}=there/a.json c.json --val b.json d.json"}
    monkeypatch.setattr(provenance, "read_model_card", lambda name: card)
    overlaps = [describe_data_overlap("mine", Path(f"{file}.json")) or "" for file in "abcd"]
    assert [words.split(",")[0] for words in overlaps] == [
        "trained on a.json",
        "selected an epoch on b.json",
        "trained on there/a.json",
        "selected an epoch on d.json",
    ]


def test_agents_without_training_games() -> None:
    assert describe_data_overlap("bot:convention", Path("a.json")) is None
    assert "no recorded games" in (describe_data_overlap("agent:ippo-2p", Path("a.json")) or "")


def test_unrecorded_data_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """`hanabi-rl export` writes such a card for a run without --data."""
    monkeypatch.setattr(
        provenance, "read_model_card", lambda name: {"data": provenance.NOT_RECORDED, "command": ""}
    )
    assert describe_data_overlap("mine.safetensors", Path("a.json")) is None


def run_of(folder: Path, algorithm: str = "best_response", **config: Any) -> str:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"algorithm": algorithm, "config": config}))
    return str(folder)


def test_old_runs_resolve_renamed_agents(tmp_path: Path) -> None:
    old = {"start_from": "agent:human-3p-robust", "partners": ["agent:anyone-3p?noise=0.1"]}
    first, second, *others = training_partners(run_of(tmp_path / "1", **old))
    assert (first, second) == ("agent:adhoc-3p?noise=0.1", "agent:human-3p-population")
    assert others == [f"Q{i}?temperature=0.3" for i in range(1, 9)]


def test_training_partners_include_ancestors(tmp_path: Path) -> None:
    """Over runs and cards, without duplicates, nearest first."""
    card = "agent:human-3p-population"
    of_card = tuple(f"Q{i}?temperature=0.3" for i in range(1, 9))
    assert training_partners(card) == of_card
    first = run_of(tmp_path / "1", init_from=card, partners=["bot:iggi", "bot:iggi", of_card[0]])
    second = run_of(tmp_path / "2", init_from=first, partners=["bot:smart", "bot:iggi"])
    partners = ("bot:smart", "bot:iggi", first, of_card[0], card, *of_card[1:])
    assert (
        training_partners(second)
        == training_partners(f"{second}/checkpoints/5?noise=0.1")
        == partners
    )
    clone = {"data": [], "init_from": second}
    for name, algorithm, config, expected in (
        ("3", "hdr_ippo", {"bc": clone, "partners": []}, (second, *partners)),
        ("4", "hdr_ippo", {"bc": {"init_from": first}, "bc_policy": second}, (second, *partners)),
        ("5", "obl", {"previous_level": second}, (second, *partners)),
        # random initial parameters; its only training partner is the clone
        ("6", "br_bc", {"bc": clone, "bc_policy": None}, (second, first, card)),
        ("7", "br_bc", {"bc": clone, "bc_policy": first, "partners": ["a"]}, ("a", first, card)),
        ("8", "bc", {"data": [], "init_from": None}, ()),
    ):
        assert training_partners(run_of(tmp_path / name, algorithm, **config)) == expected, name
    tenth = run_of(tmp_path / "9", init_from=str(tmp_path / "7"), partners=["b"])
    assert training_partners(tenth) == ("b", str(tmp_path / "7"), "a", first, card)


def test_cyclic_and_missing_ancestors(tmp_path: Path) -> None:
    places = [str(tmp_path / name) for name in "abc"]
    for place, start in zip(places, [places[1], places[0], "agent:gone"], strict=True):
        run_of(Path(place), init_from=start, partners=[f"bot:of-{place[-1]}"])
    assert training_partners(places[0]) == ("bot:of-a", places[1], "bot:of-b", places[0])
    assert training_partners(places[2]) == ("bot:of-c", "agent:gone")
    assert describe_data_overlap(places[0], Path("x.json")) is not None


def test_data_overlap_includes_ancestors(tmp_path: Path) -> None:
    """An agent trained on what any of its ancestors trained on; overlap is denied only if all are
    known."""
    old = run_of(tmp_path / "old", "bc", data=["there/a.json"], val=["b.json"])
    new = run_of(tmp_path / "new", "bc", data=["c.json"], val=["d.json"], init_from=old)
    best = run_of(tmp_path / "best", init_from=new, partners=["bot:simple"])
    hdr = run_of(tmp_path / "hdr", "hdr_ippo", bc_policy=None, bc={"init_from": old})
    own = run_of(tmp_path / "own", "br_bc", bc={"data": ["e.json"], "init_from": new})
    given = run_of(tmp_path / "given", "br_bc", bc_policy=new, bc={"data": []})
    best_of = run_of(tmp_path / "best_of", init_from=given)
    optimistic, by_name = "so its predictions there are optimistic", "(by name)"
    for agent, file, words in (
        (new, "c.json", f"trained on c.json, {optimistic}"),
        (
            new,
            "a.json",
            f"trained on c.json; initialised from {old}, which trained on a.json, {optimistic}",
        ),
        (
            new,
            "d.json",
            f"selected an epoch on d.json, not trained on it; initialised from {old}, which "
            f"trained on there/a.json, not on d.json {by_name}",
        ),
        (hdr, "a.json", f"initialised from {old}, which trained on a.json, {optimistic}"),
        (own, "e.json", f"trained on e.json, {optimistic}"),
        (
            own,
            "c.json",
            f"trained on e.json; its clone is, or was initialised from, {new}, which trained on "
            f"c.json, {optimistic}",
        ),
        (
            given,
            "c.json",
            f"its clone is, or was initialised from, {new}, which trained on c.json, {optimistic}",
        ),
        (
            best_of,
            "c.json",
            f"initialised from {given}; the clone is, or was initialised from, {new}, which "
            f"trained on c.json, {optimistic}",
        ),
        (
            best,
            "x.json",
            f"initialised from {new}, which trained on c.json, not on x.json {by_name}; that agent "
            f"was initialised from {old}, which trained on there/a.json, not on x.json {by_name}",
        ),
    ):
        assert describe_data_overlap(agent, Path("elsewhere") / file) == words, (agent, file)


def test_bc_policy_ignores_game_files(tmp_path: Path) -> None:
    """--bc.data and --bc.val are for training a clone, which --bc-policy replaces."""
    clone = run_of(tmp_path / "clone", "bc", data=["a.json"], val=["b.json"])
    unread = {"data": ["c.json"], "val": ["d.json"]}
    hdr = run_of(tmp_path / "hdr", "hdr_ippo", bc_policy=clone, bc=unread)
    for file, words in (
        ("a", "trained on a.json, so its predictions there are optimistic"),
        ("b", "selected an epoch on b.json, not trained on it"),
        ("c", "trained on a.json, not on c.json (by name)"),
        ("d", "trained on a.json, not on d.json (by name)"),
    ):
        overlap = describe_data_overlap(hdr, Path(f"{file}.json"))
        assert overlap == f"initialised from {clone}, which {words}"
    policy = network_policy(TINY, seed=0)
    assert [provenance.run_metadata(name, policy)["data"] for name in (hdr, clone)] == [
        "a.json"
    ] * 2


def test_saved_clone_has_clone_provenance(tmp_path: Path) -> None:
    """Its training partners do not include those of the run."""
    config = {"init_from": "bot:iggi", "data": ["a.json"]}
    clone = run_of(tmp_path / "clone", "bc", **config)
    given = run_of(tmp_path / "given", "br_bc", bc_policy=clone, bc={}, partners=["bot:simple"])
    own = run_of(tmp_path / "own", "hdr_ippo", bc_policy=None, bc=config, partners=["bot:simple"])
    run_of(tmp_path / "own" / "bc", "bc", **config)
    for run, began in ((given, (clone, "bot:iggi")), (own, ("bot:iggi",))):
        saved = f"{run}/{CLONE_FOLDER}"
        save_policy(saved, network_policy(TINY, seed=0), algorithm="bc", steps=1, score=None)
        for name in (saved, f"{saved}/{FILE}", f"{saved}?noise=0.1"):
            assert training_partners(name) == ("bot:iggi",), name
            assert describe_data_overlap(name, Path("a.json")) == describe_data_overlap(
                clone, Path("a.json")
            ), name
        assert training_partners(f"{run}/policy") == ("bot:simple", *began)
    gone = run_of(tmp_path / "gone", "br_bc", bc_policy="agent:gone", partners=["bot:simple"])
    assert training_partners(f"{gone}/{CLONE_FOLDER}") == ()


def test_unknown_ancestor_data_is_not_denied(tmp_path: Path) -> None:
    gone = run_of(tmp_path / "1", "bc", data=["a.json"], val=["b.json"], init_from="no/such")
    assert describe_data_overlap(gone, Path("x.json")) == (
        "trained on a.json; initialised from no/such, with unrecorded data"
    )
    assert describe_data_overlap(gone, Path("b.json")) == (
        "selected an epoch on b.json; initialised from no/such, with unrecorded data"
    )
    prior = run_of(tmp_path / "2", "bc", data=["a.json"], init_from="agent:pretrained-3p")
    words = describe_data_overlap(prior, Path("x.json")) or ""
    assert words.startswith(
        "trained on a.json; initialised from agent:pretrained-3p, which trained on 10,500"
    )
    assert words.endswith("its card does not say if that includes x.json")
    alone = run_of(tmp_path / "3", "bc", data=["a.json"], init_from="agent:ippo-2p")
    assert describe_data_overlap(alone, Path("x.json")) == (
        "trained on a.json, not on x.json (by name); initialised from agent:ippo-2p, which trained "
        "on no recorded games, according to its card"
    )
