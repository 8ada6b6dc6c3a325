"""Hugging Face Hub: loading from its cache and publishing, with the network client replaced."""

import json
import re
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import huggingface_hub
import pytest
import yaml
from huggingface_hub import constants
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from support.games import TINY, TINY_3P
from support.hub import keep_in_cache, offline
from support.overcooked import recorded_games
from support.policies import network_policy

from hanabi_rl.agents.hub import END, START, model_page, parse_hub_name
from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy_file import read_card, read_file, round_to_half, write_file
from hanabi_rl.agents.provenance import training_partners
from hanabi_rl.cli import main
from hanabi_rl.cli.agents import names_games
from hanabi_rl.evaluation.reporting.matrix import short_labels
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.overcooked import Overcooked
from hanabi_rl.games.overcooked.recorded_games import save_recorded_games
from hanabi_rl.games.registry import game_label, game_to_text
from hanabi_rl.storage.hf_hub import upload_files


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    path = tmp_path / "a.safetensors"
    write_file(path, network_policy(TINY, 0), {"training_partners": ["bot:iggi"]}, half=True)
    return path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    offline(monkeypatch, tmp_path / "hub")
    return tmp_path / "hub"


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("hf:me/anyone", ("me/anyone", None, None)),
        ("hf:me/anyone@v1.0", ("me/anyone", None, "v1.0")),
        ("hf:me/a.b-c/x/y.safetensors", ("me/a.b-c", "x/y.safetensors", None)),
        ("hf:me/a/y.safetensors@refs/pr/1", ("me/a", "y.safetensors", "refs/pr/1")),
    ],
)
def test_hub_names_parse(name: str, parts: tuple[str | None, ...]) -> None:
    assert parse_hub_name(name) == parts


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hf:", r"expected hf:OWNER/NAME\[/FILE\]\[@REVISION\], got hf:"),
        ("hf:anyone", "expected hf:OWNER/NAME"),
        ("hf:me/anyone@", "expected hf:OWNER/NAME"),
        ("hf:me/anyone/x.pkl", "ending in .safetensors .*, got x.pkl"),
        ("hf:-me/anyone.", "expected a repository OWNER/NAME, got '-me/anyone.'"),
    ],
)
def test_invalid_hub_names_are_rejected(name: str, message: str, cache: Path) -> None:
    with pytest.raises(ValueError, match=message):
        load_policy(name)


def test_exported_agent_loads_from_hub(cache: Path, exported: Path) -> None:
    """By its repository alone, with a file, at a tag and at a commit, and with options."""
    files = {"policy.safetensors": exported.read_bytes(), "README.md": b"", "b.safetensors": b""}
    keep_in_cache(cache, "me/anyone", files, ref="main")
    other = round_to_half(network_policy(TINY, 1))
    write_file(exported, other)
    commit = "f" * 40
    at = {"policy.safetensors": exported.read_bytes()}
    keep_in_cache(cache, "me/anyone", at, commit=commit, ref="v2")
    first = load_policy("hf:me/anyone")
    assert first.identity() == round_to_half(network_policy(TINY, 0)).identity()
    assert first.identity() == load_policy("hf:me/anyone/policy.safetensors@main").identity()
    for revision in ("v2", commit):
        assert load_policy(f"hf:me/anyone@{revision}").identity() == other.identity()
    assert load_policy("hf:me/anyone@v2?temperature=2", TINY).identity() != other.identity()
    assert training_partners("hf:me/anyone") == ("bot:iggi",)
    with pytest.raises(ValueError, match="hf:me/anyone: expected an agent for 5 colours"):
        load_policy("hf:me/anyone", Rules())
    assert not names_games("hf:me/anyone/b.safetensors")
    assert short_labels(["hf:me/anyone", "hf:me/anyone@v2"]) == ["anyone", "anyone@v2"]


def test_repository_file_selection(cache: Path, exported: Path) -> None:
    content = exported.read_bytes()
    keep_in_cache(cache, "me/one", {"x/only.safetensors": content, "a.txt": b""}, ref="main")
    assert load_policy("hf:me/one").identity() == read_file(exported).identity()
    keep_in_cache(cache, "me/two", {"a.safetensors": b"", "b.safetensors": b""}, ref="main")
    with pytest.raises(ValueError, match=r"got 2 \.safetensors files: a.safet.*, b.safetensors"):
        load_policy("hf:me/two")
    keep_in_cache(cache, "me/none", {"model.bin": b"", "README.md": b""}, ref="main")
    with pytest.raises(
        ValueError,
        match=r"hf:me/none: expected policy.safetensors, .* got no .safetensors file: README.md, m",
    ):
        load_policy("hf:me/none")
    with pytest.raises(ValueError, match=r"a.safetensors: expected a safetensors file, cannot"):
        load_policy("hf:me/two/a.safetensors")


@pytest.mark.parametrize("name", ["hf:me/away", "hf:me/away/a.safetensors", "hf:me/two@v9"])
def test_uncached_agent_needs_connection(name: str, cache: Path) -> None:
    keep_in_cache(cache, "me/two", {"a.safetensors": b""}, ref="main")
    with pytest.raises(ConnectionError, match=r"could not .*me/(away|two).*'hf download me/"):
        load_policy(name)


def answer(status: int) -> Any:
    return httpx2.Response(status, request=httpx2.Request("GET", "https://hub"))


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (GatedRepoError, PermissionError, "me/a is gated: request access .* `hf auth login`"),
        (RepositoryNotFoundError, ValueError, "expected an existing repository .*me/a; if"),
        (RevisionNotFoundError, ValueError, "me/a: expected a branch, tag or .* got 'v9'"),
        (RemoteEntryNotFoundError, ValueError, r"expected a file x.safetensors; its files: a, b"),
        (HfHubHTTPError, ConnectionError, "could not download x.safetensors from .*name its local"),
    ],
)
def test_hub_errors_are_translated(
    error: type[HfHubHTTPError],
    kind: type[Exception],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise error("no", response=answer(404))

    listing = SimpleNamespace(list_repo_files=lambda *_, **__: ["b", "a"])
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", refuse)
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: listing)
    with pytest.raises(kind, match=message):
        load_policy("hf:me/a/x.safetensors@v9")
    if error is not RemoteEntryNotFoundError and kind is not ConnectionError:
        listing.list_repo_files = refuse
        with pytest.raises(kind, match=message):
            load_policy("hf:me/a@v9")


@pytest.mark.parametrize("name", ["hf:me/away", "hf:me/away/x.safetensors"])
def test_client_retries_are_silent(
    name: str, cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    logger = huggingface_hub.utils.logging.get_logger("huggingface_hub.utils._http")

    def retry(*_: Any, **__: Any) -> None:
        logger.warning("Retrying in 1s [Retry 1/5].")
        raise OSError("no route to host")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", retry)
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: SimpleNamespace(list_repo_files=retry))
    with pytest.raises(ConnectionError, match="could not .*no route to host"):
        load_policy(name)
    assert not caplog.records
    logger.warning("of a program that uses the client itself")
    assert len(caplog.records) == 1


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--push` checks the token before the evaluation."""
    monkeypatch.setenv("HF_TOKEN", "hf_of_nobody")


def test_missing_token_fails_before_evaluation(
    exported: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(exported.parent / "none"))
    with pytest.raises(SystemExit):
        main(["export", str(exported), "--push", "me/anyone"])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("hanabi-rl: --push: no token for the Hugging Face Hub: log in with")


class Hub:
    """Records the client's calls of a push; the repository exists, public or private."""

    def __init__(self, private: bool = True, refuse: Exception | None = None) -> None:
        self.private, self.refuse = private, refuse
        self.made: list[tuple[str, bool]] = []
        self.files: dict[str, bytes] = {}
        self.folder = Path(tempfile.mkdtemp())

    def create_repo(self, repository: str, *, private: bool, exist_ok: bool) -> None:
        assert exist_ok
        if self.refuse is not None:
            raise self.refuse
        self.made.append((repository, private))

    def model_info(self, repository: str) -> Any:
        return SimpleNamespace(private=self.private)

    def hf_hub_download(self, repository: str, path: str, *, force_download: bool) -> str:
        assert force_download
        if path not in self.files:
            raise RemoteEntryNotFoundError("no", response=answer(404))
        (self.folder / path).write_bytes(self.files[path])
        return str(self.folder / path)

    def create_commit(self, repository: str, operations: Any, *, commit_message: str) -> Any:
        for operation in operations:
            self.files[operation.path_in_repo] = operation.path_or_fileobj
        return SimpleNamespace(commit_url=f"https://hub/{repository}/commit/1")


def test_push_publishes_agent(
    exported: Path,
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    hub = Hub()
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: hub)
    flags = ["--games", "64", "--about", "A test.", "--license", "cc-by-4.0"]
    main(["export", str(exported), "--push", "me/anyone", "--private", *flags])
    assert "Published as hf:me/anyone: https://hub/me/anyone/commit/1" in capsys.readouterr().err
    assert hub.made == [("me/anyone", True)]
    assert sorted(hub.files) == ["README.md", "policy.safetensors"]
    # the published file loads, with its card
    keep_in_cache(cache, "me/anyone", hub.files, ref="main")
    assert load_policy("hf:me/anyone").identity() == read_file(exported).identity()
    (tmp_path / "back.safetensors").write_bytes(hub.files["policy.safetensors"])
    card = read_card(tmp_path / "back.safetensors")
    assert (card["about"], card["training_partners"]) == ("A test.", ["bot:iggi"])
    front, text = hub.files["README.md"].decode().split("---\n")[1:]
    fields = yaml.safe_load(front)
    assert fields["license"] == "cc-by-4.0" and fields["library_name"] == "hanabi-rl"
    assert "hanabi" in fields["tags"] and fields["metrics"] == ["mean_reward"]
    (result,) = fields["model-index"][0]["results"]
    assert result["metrics"][0]["value"] == card["selfplay"]["mean"]
    assert "hanabi-rl play hf:me/anyone" in text and "| training partners | bot:iggi |" in text


def test_unpublishable_agents_are_rejected(
    exported: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hub = Hub(private=False)
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: hub)
    with pytest.raises(ValueError, match="a private repository, got .*me/a, which is public"):
        upload_files("me/a", {"x": b"x"}, private=True, message="x")
    assert not hub.files
    assert upload_files("me/a", {"x": b"x"}, private=False, message="x").endswith("commit/1")
    hub.refuse = HfHubHTTPError("no", response=answer(401))
    with pytest.raises(PermissionError, match="me/a .*: log in with `hf auth login`, or set HF_TO"):
        upload_files("me/a", {}, private=False, message="x")
    hub.refuse = OSError("no route to host")
    with pytest.raises(ConnectionError, match="could not write to .*me/a .*no route to host"):
        upload_files("me/a", {}, private=False, message="x")
    for arguments, message in (
        ([], "expected an output file or --push OWNER/NAME"),
        (["--push", "anyone"], "--push: expected OWNER/NAME, got anyone"),
        (["--push", "me/anyone/x.safetensors"], "--push: expected OWNER/NAME"),
    ):
        with pytest.raises(SystemExit):
            main(["export", str(exported), *arguments])
        assert message in capsys.readouterr().err


def card_with(**changes: Any) -> dict[str, Any]:
    """A card as an export makes it."""
    score = {"mean": 20.5, "ci95": [20.1, 20.9], "zero_rate": 0.0125, "games": 5000, "seed": 1}
    card = {"about": "It plays.", "players": 2, "algorithm": "hdr_ippo", "features": "facts"}
    card |= {"steps": 7, "unit": "updates", "data": "games", "training_partners": ["bot:iggi"]}
    card |= {"selfplay": score, "prediction": None, "command": "", "measured": "today"}
    return card | changes


def test_card_and_page_of_other_games(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent, out, games = (tmp_path / f"{name}.safetensors" for name in ("a", "out", "games"))
    write_file(agent, network_policy(Overcooked(horizon=12), 0), {}, half=True)
    save_recorded_games(games, recorded_games([12, 7, 9], pairs=[0, 1, 2]))
    main(["export", str(agent), str(out), "--games", "8", "--predict", f"{games}?part=train"])
    card = read_card(out)
    assert card["game"] == "overcooked:cramped_room" and card["selfplay"]["sampled"]
    main(["agents", str(out)])
    assert "8 sampled games" in capsys.readouterr().out
    page = model_page("me/a", card, None)
    assert "hanabi" not in fields_of(page)["tags"] and fields_of(page)["tags"][0] == "overcooked"
    assert [result["dataset"] for result in fields_of(page)["model-index"][0]["results"]] == [
        {"type": "overcooked", "name": "overcooked:cramped_room"},
        {"type": "overcooked-games", "name": "games.safetensors?part=train"},
    ]
    assert "Hanabi" not in page and "8 sampled games" in page
    assert "of prediction, over groups of players" in page


@pytest.mark.parametrize(
    ("rules", "game"),
    [(Rules(), "2 players"), (TINY_3P, game_label(TINY_3P)), (None, "2 players")],
)
def test_page_names_rules_of_hanabi(rules: Rules | None, game: str) -> None:
    """Without rules: a card of an earlier version."""
    known = {} if rules is None else {"game": game_to_text(rules), "players": rules.num_players}
    page = model_page("me/a", card_with(**known), None)
    (result,) = fields_of(page)["model-index"][0]["results"]
    assert result["dataset"] == {"type": "hanabi", "name": f"Hanabi, {game}"}
    assert "5,000 greedy games" in page and fields_of(page)["tags"][0] == "hanabi"


def fields_of(page: str) -> dict[str, Any]:
    fields = yaml.safe_load(page.split("---\n")[1])
    assert isinstance(fields, dict)
    return fields


def test_second_push_keeps_owner_text(
    exported: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = Hub()
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: hub)

    def push(games: int, *flags: str) -> str:
        main(["export", str(exported), "--push", "me/anyone", "--games", str(games), *flags])
        return hub.files["README.md"].decode()

    page = push(64, "--license", "cc-by-4.0", "--about", "The first.")
    owners = page.replace("The first.", "Mine: it *plays*.").replace(
        "tags:\n", "language: en  # of the text\nversion: 1.10\ntags:\n- mine\n"
    )
    owners += "\n## Limits\n\nNone known.\n"
    hub.files["README.md"] = owners.encode()
    again = push(128, "--about", "The second.")
    assert "128 greedy games" in again and "64 greedy games" not in again
    assert "Mine: it *plays*." in again and again.endswith("\n## Limits\n\nNone known.\n")
    assert "language: en  # of the text\nversion: 1.10\n" in again
    fields = fields_of(again)
    assert fields["license"] == "cc-by-4.0" and fields["tags"][0] == "mine"
    assert push(128) == again  # stable
    assert fields_of(push(128, "--license", "mit"))["license"] == "mit"
    assert fields_of(push(128))["license"] == "mit"
    # except the owner's text and licence, the page is unchanged
    assert push(128).replace("license: mit", "license: cc-by-4.0") == again


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("---\nlicense: mit\n---\n", []),  # as the Hub's form for a new repository makes it
        ("---\r\nlicense: mit\r\n---\r\n# Mine\r\n\r\nText.\r\n", ["# Mine\r\n\r\nText."]),
        ("\ufeff---\nlicense: mit\n---\nText with | and ---\n---\n", ["with | and ---\n---"]),
        ("---\n{license: mit, tags: [x], by: Zoë}\n---\n", ["by: Zoë\n"]),
        ("---\n# why\nlicense: mit\ntags: [x]\n# last\n---", ["# why\n", "# last\n"]),
    ],
)
def test_push_keeps_foreign_front_matter(before: str, expected: list[str]) -> None:
    page = model_page("me/a", card_with(), None, before.encode()).replace("\r\n", "\n")
    assert fields_of(page)["license"] == "mit" and fields_of(page)["library_name"] == "hanabi-rl"
    assert fields_of(page)["tags"] == (["x"] if "[x]" in before else fields_of(page)["tags"])
    assert all(text.replace("\r\n", "\n") in page for text in expected)
    assert page.count(START) == page.count(END) == 1 and "20.5 [20.1, 20.9]" in page
    again = model_page("me/a", card_with(), None, page.encode())
    assert again == page


def test_push_completes_partial_pages() -> None:
    page = model_page("me/a", card_with(), None, b"# Mine\n\nText.\n")
    assert "# Mine\n\nText.\n" in page and "It plays." not in page
    assert fields_of(page)["license"] == "unknown"
    assert "# a\n\nIt plays.\n" in model_page("me/a", card_with(), None, b" \n")


def test_push_replaces_only_own_results() -> None:
    predicted = {"prediction": {"file": "people.json", "accuracy": 0.5}}
    first = model_page("me/a", card_with(**predicted), "mit")
    fields = fields_of(first)
    results = fields["model-index"][0]["results"]
    assert [result["metrics"][0]["value"] for result in results] == [20.5, 0.5]
    assert [result["dataset"]["name"] for result in results] == ["Hanabi, 2 players", "people.json"]
    other = {"task": {"type": "x"}, "dataset": {"name": "y", "type": "z"}}
    other |= {"metrics": [{"type": "mean_reward", "name": "with people", "value": 9}]}
    fields["model-index"][0]["results"].append(other)
    fields["model-index"][0]["name"] = "mine"
    body = first.split("---\n", 2)[2]
    edited = f"---\n{yaml.safe_dump(fields)}---\n{body}"
    score = {**card_with()["selfplay"], "mean": 21.0}
    (entry,) = fields_of(model_page("me/a", card_with(selfplay=score), None, edited.encode()))[
        "model-index"
    ]
    assert entry["name"] == "mine"
    assert [r["metrics"][0]["value"] for r in entry["results"]] == [21.0, 9]


@pytest.mark.parametrize(
    ("before", "message"),
    [
        (b"\xff\xfe-", "README.md of me/a: expected UTF-8"),
        (b"---\na: [\n---\n", "README.md of me/a: expected YAML between the lines ---"),
        (b"---\n- a\n---\n", "README.md of me/a: expected fields between"),
        (b"---\nlicense: mit\n", "README.md of me/a: expected a line ---"),
        (b"---\nmodel-index: [a]\n---\n", "README.md of me/a: expected model-index to list models"),
        (b"---\nmodel-index: [{results: [a]}]\n---\n", "me/a: expected model-index to list models"),
        (START.encode(), "expected <!-- .* and after it .*, got 1 and 0; correct the page"),
        (f"{END}\n{START}".encode(), "once each or not at all, got 1 and 1"),
        (f"{START}\n{END}\n{START}\n{END}".encode(), "got 2 and 2"),
    ],
)
def test_invalid_page_prevents_push(
    before: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = Hub()
    hub.files["README.md"] = before
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: hub)

    def page(current: bytes | None) -> bytes:
        return model_page("me/a", card_with(), None, current).encode()

    with pytest.raises(ValueError, match=message):
        upload_files("me/a", {"x": b"x", "README.md": page}, private=False, message="x")
    assert hub.files == {"README.md": before}


def test_unreadable_page_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub()
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: hub)
    for error in (LocalEntryNotFoundError("away"), OSError("no route to host")):

        def refuse(*_: Any, error: Exception = error, **__: Any) -> str:
            raise error

        monkeypatch.setattr(hub, "hf_hub_download", refuse)
        with pytest.raises(ConnectionError, match="could not write to .*me/a"):
            upload_files("me/a", {"README.md": lambda _: b"new"}, private=False, message="x")
    assert not hub.files


def test_page_table_escapes_card_text() -> None:
    odd = "a | b\nc `d` *e* <f> [g](h) \\ _i_"
    page = model_page(
        "me/a", card_with(data=odd, command=odd, training_partners=[odd, "x|y"], features=odd), None
    )
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert len(rows) == 11
    for row in rows:
        assert re.sub(r"\\.", "", row).count("|") == 3, row
    (command,) = [row for row in rows if row.startswith("| command |")]
    assert re.sub(r"\\(.)", r"\1", command) == f"| command | {' '.join(odd.split())} |"


def test_card_fields_as_text(
    exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = {"file": "p.json", "accuracy": 0.5, "accuracy_ci95": [0.4, 0.6]}
    for card, words in (
        (
            card_with(),
            ["training_partners  bot:iggi", "20.5 [20.1, 20.9], 1.2% zero, 5,000 greedy games"],
        ),
        (card_with(training_partners=["a", "b", "a"]), ["training_partners  a, b\n"]),
        (card_with(command=""), ["command            not recorded"]),
        (card_with(training_partners=[]), ["training_partners  itself"]),
        (card_with(prediction=None), ["prediction         not measured"]),
        (card_with(training_partners=[], algorithm="bc"), ["training_partners  none"]),
        (card_with(prediction=figures), ["0.500 [0.400, 0.600] of moves (on p.json)"]),
        (card_with(selfplay=None), ["selfplay           not measured"]),
    ):
        path = tmp_path / "card.safetensors"
        write_file(path, read_file(exported), card, half=True)
        main(["agents", str(path)])
        output = capsys.readouterr().out
        assert all(text in output for text in words), output
        assert not any(sign in output for sign in "{}")
        main(["agents", str(path), "--json"])
        assert json.loads(capsys.readouterr().out) == {"name": str(path), **card}
    for name in ("bot:convention", "bot:random", "bot:rules", "agent:hgroup-2p"):
        main(["agents", name])
        assert not any(sign in capsys.readouterr().out for sign in "{}")
