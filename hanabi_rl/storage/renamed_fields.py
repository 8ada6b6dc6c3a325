"""Renamed config fields and values, for loading older runs and for error messages."""

from collections.abc import Sequence
from typing import Any

RENAMED = {
    "calibrate": "calibrate_temperature",
    "checkpoints": "num_checkpoints",
    "difference": "td_error",
    "discard_rich": "discard_many_tokens",
    "follow": "ema_rate",
    "hands": "num_hands",
    "hint_again": "hint_repeated",
    "keep_evaluated": "save_evaluated",
    "level": "features",
    "num_blocks": "num_shuffle_blocks",
    "only_movers": "current_player_only",
    "pairs": "num_pairs",
    "partner_share": "partner_prob",
    "play_response": "play_after_hint",
    "preferred_events": "max_events",
    "previous": "previous_level",
    "priority": "priority_exponent",
    "rematch": "rematch_prob",
    "rounds": "max_rounds",
    "series": "games_per_series",
    "shaped_until": "shaping_anneal_start",
    "start_from": "init_from",
    "start_share": "start_state_prob",
    "true_score_from": "shaping_anneal_end",
    "weights": "event_weights",
}
"""Old field name -> new name, at any depth of a config; a flag is its field with hyphens."""

RENAMED_VALUES: dict[str, dict[str, str]] = {
    "features": {"learnt": "hint-history", "reading": "conventions"},
    "preset": {
        "prior": "pretrain",
        "3p-prior": "3p-pretrain",
        "strangers": "adhoc",
        "strangers-3p": "adhoc-3p",
        "strangers-reading": "adhoc-conventions",
        "above": "next-level",
        "above-gpu": "next-level-gpu",
        "2p-human-learnt": "2p-human-hint-history",
        "3p-human-learnt": "3p-human-hint-history",
        "2p-1k-as-published": "2p-1k-ah2ac2-code",
        "3p-1k-as-published": "3p-1k-ah2ac2-code",
    },
    "td_error": {"discounted": "standard"},
}
"""New field name -> old value -> new value."""


def with_new_names(saved: dict[str, Any]) -> dict[str, Any]:
    """Saved config with current names of fields and values, at every depth."""
    renamed: dict[str, Any] = {}
    for name, value in saved.items():
        new = RENAMED.get(name, name)
        if isinstance(value, dict):
            value = with_new_names(value)
        elif isinstance(value, str):
            value = RENAMED_VALUES.get(new, {}).get(value, value)
        renamed[new] = value
    return renamed


def check_not_renamed(args: Sequence[str]) -> None:
    """Raise ValueError for a flag with an old name: `--rematch was renamed to --rematch-prob`."""
    for flag in args:
        name, _, _ = flag.partition("=")
        prefix, dot, last = name.removeprefix("--").rpartition(".")
        no = "no-" * last.startswith("no-")
        new = RENAMED.get(last.removeprefix(no).replace("-", "_"))
        if name.startswith("--") and new is not None:
            raise ValueError(f"{name} was renamed to --{prefix}{dot}{no}{new.replace('_', '-')}")
