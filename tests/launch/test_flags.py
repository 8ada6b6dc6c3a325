"""Flags before tyro parses them: repeated lists, which would drop values; help of fields."""

import dataclasses
import sys
from typing import Any

import pytest

from hanabi_rl.algorithms.registry import ALGORITHMS
from hanabi_rl.cli import app
from hanabi_rl.launch import script
from hanabi_rl.launch.flags import join_help_lines, list_flags, normalize_flags
from hanabi_rl.launch.sweep_config import SweepConfig
from hanabi_rl.learning.cloning import BCTrainConfig

COMMANDS: dict[tuple[str, ...], Any] = {
    **{(name,): body for name, body in app._COMMANDS.items()},
    **{(group, name): body for group, of, _ in app._GROUPS for name, body in of.items()},
    **{("train", name): ALGORITHMS[name].config for name in ALGORITHMS},
    ("sweep",): SweepConfig,
}
TWICE = [(command, flag) for command, body in COMMANDS.items() for flag in set(list_flags(body))]


def refused(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    with pytest.raises(SystemExit) as stop:
        app.main(args)
    assert stop.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_commands_reject_repeated_list_flags(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert len(TWICE) > 100
    for command, flag in TWICE:
        line = refused(capsys, *command, flag, "1", flag, "2", "3")
        expected = f"{flag}: expected once, with all its values ({flag} 1 2 3), got it 2 times"
        assert line == f"hanabi-rl: {expected} (--debug shows where)", command


@pytest.mark.parametrize(
    ("args", "flag", "values"),
    [
        ("train bc --data a --lr 1 --data b", "--data", "a b"),
        ("train bc --data=a --data b c", "--data", "a b c"),
        ("train hdr_ippo --bc.data a --bc.data=b", "--bc.data", "a b"),
        ("train hdr-ippo --bc.network.lstm 8 --bc.network.lstm 9", None, ""),
        ("train best_response --partners X --partners Y", "--partners", "X Y"),
        ("train ippo --start_states X --start-states Y", "--start-states", "X Y"),
        ("train ippo --num_cards_of_rank 3 --num-cards-of-rank 2", "--num-cards-of-rank", "3 2"),
        ("sweep --seeds 0 --seeds 1", "--seeds", "0 1"),
        ("sweep --kl-weights 0 0.1 --kl_weights=0.5", "--kl-weights", "0 0.1 0.5"),
        ("sweep --bc.data a --bc.data b", "--bc.data", "a b"),
        ("sweep --algorithm bc --val a --val b --grid lr=[1]", "--val", "a b"),
        ("cross_play a b --group X=a --group Y=b", "--group", "X=a Y=b"),
        ("study FILE --ai a --ai b", None, ""),
    ],
)
def test_repeated_flag_error_names_fix(
    capsys: pytest.CaptureFixture[str], args: str, flag: str | None, values: str
) -> None:
    if flag is None:  # no such command or flag: another error
        with pytest.raises(SystemExit):
            app.main(args.split())
        assert "expected once" not in capsys.readouterr().err
        return
    assert f"{flag}: expected once, with all its values ({flag} {values})" in refused(
        capsys, *args.split()
    )


def test_scripts_reject_repeated_list_flags(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bc.py", "--seeds", "0", "--seeds", "1"])
    with pytest.raises(SystemExit):
        script.main("bc")
    assert "bc.py: --seeds: expected once" in capsys.readouterr().err


def test_last_single_value_counts() -> None:
    """As after an alias that contains it."""
    flags = list(list_flags(ALGORITHMS["hdr_ippo"].config))
    assert not {"--lr", "--preset", "--bc-policy", "--num-players", "--bc.epochs"} & set(flags)


def test_nested_and_renamed_list_flags_are_found() -> None:
    @dataclasses.dataclass
    class Inner:
        deep: list[str]
        plain: str = ""

    def command(
        first: str, many: tuple[int, ...] | None = None, inner: Inner | None = None
    ) -> None:
        del first, many, inner

    assert list(list_flags(command)) == ["--many", "--inner.deep"]


def test_help_joins_wrapped_field_docstrings() -> None:
    config = ALGORITHMS["hdr_ippo"].config
    join_help_lines(config, ["--help"])
    fields = {field.name: field for field in dataclasses.fields(config)}
    assert fields["num_shuffle_blocks"].metadata["help"].endswith("by the number of devices.")
    nested = {field.name: field for field in dataclasses.fields(BCTrainConfig)}
    texts = [field.metadata.get("help", "") for field in (*fields.values(), *nested.values())]
    assert all("\n" not in text for text in texts) and len(texts) > 50


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("--seeds 0..2 --lr 1", "--seeds 0 1 2 --lr 1"),
        ("--num_envs 8 --seeds=3..4", "--num-envs 8 --seeds 3 4"),
        ("--seeds 7 1..2 9", "--seeds 7 1 2 9"),
        ("--seeds=5 x", "--seeds=5 x"),
        ("--partners bot:rules?seed=0..1", "--partners bot:rules?seed=0..1"),
    ],
)
def test_seed_ranges_are_expanded(given: str, expected: str) -> None:
    assert normalize_flags(given.split()) == expected.split()


def test_invalid_seed_ranges_are_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    for text, problem in (("4..2", "in ascending order"), ("0..10000", "at most 10,000 seeds")):
        line = refused(capsys, "train", "ippo", "--preset", "small", "--seeds", text)
        assert f"--seeds {text}: expected" in line and problem in line
    twice = refused(capsys, "train", "ippo", "--preset", "small", "--seeds", "0..2", "1")
    assert "expected different seeds, got 1 twice" in twice
