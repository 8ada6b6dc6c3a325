"""Config fields, values and agents with new names or places, for older runs and error messages."""

import itertools
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

MOVED = dict.fromkeys(
    (
        "keep_points",
        "life_cost",
        "shaping_anneal_start",
        "shaping_anneal_end",
        "teaming_weight",
        "g1_weight",
        "g2_weight",
        "g3_weight",
    ),
    "shaping",
)
"""Field name -> table of a config that it moved to; its flag has no prefix, so it is unchanged."""

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

RENAMED_AGENTS = {
    "anyone-2p": "adhoc-2p",
    "anyone-3p": "adhoc-3p",
    "human-3p-robust": "human-3p-population",
    "prior-3p": "pretrained-3p",
}
"""Old name of a bundled agent -> new name."""

RENAMED_SETTINGS = {
    "hands": "num_hands",
    "rollouts": "num_rollouts",
    "moves": "max_moves",
    "least": "min_prob",
    "window": "history_window",
    "effective": "min_ess_fraction",
    "doubt": "gain_std_errors",
}
"""Old name of a setting of `?search=` -> new name. The identity of a search hashes the old names,
so that renaming a setting changes no identity."""

RENAMED_OPTIONS = {"knows": "partner_games", "partner": "partner_model", **RENAMED_SETTINGS}
"""Old name of an agent's option -> new name."""


def with_new_names(saved: dict[str, Any], table: str = "") -> dict[str, Any]:
    """Saved config (or a table of one) with current names of fields, values and agents, and with
    fields in their current tables, at every depth."""
    renamed: dict[str, Any] = {}
    for name, value in saved.items():
        new = RENAMED.get(name, name)
        if isinstance(value, dict):
            value = with_new_names(value, new)
        elif isinstance(value, str):
            value = current_name(RENAMED_VALUES.get(new, {}).get(value, value))
        elif isinstance(value, list):
            value = [current_name(item) if isinstance(item, str) else item for item in value]
        moved = MOVED.get(new, table) != table
        (renamed.setdefault(MOVED[new], {}) if moved else renamed)[new] = value
    return renamed


def current_name(name: str) -> str:
    """Agent's name with current names of a bundled agent and of options; other text unchanged."""
    agent, question, options = name.partition("?")
    scheme, _, short = agent.partition(":")
    if scheme == "agent":
        agent = f"agent:{RENAMED_AGENTS.get(short, short)}"
    if not question:
        return agent
    pairs = (pair.partition("=") for pair in options.split("&"))
    return f"{agent}?" + "&".join(
        f"{RENAMED_OPTIONS.get(key, key)}{equals}{current_name(value)}"
        for key, equals, value in pairs
    )


def check_not_renamed(args: Sequence[str]) -> None:
    """Raise ValueError for a flag or value with an old name: `--rematch was renamed to
    --rematch-prob`."""
    for arg, following in itertools.pairwise((*args, "")):
        flag, equals, value = arg.partition("=")
        if not flag.startswith("--"):
            continue
        *groups, last = flag.removeprefix("--").replace("-", "_").split(".")
        no = "no_" * last.startswith("no_")
        field = RENAMED.get(last.removeprefix(no), last.removeprefix(no))
        path = ".".join((*(RENAMED.get(group, group) for group in groups), no + field))
        if (new := f"--{path.replace('_', '-')}") != flag.replace("_", "-"):
            raise ValueError(f"{flag} was renamed to {new}")
        value = value if equals else following
        if value in (values := RENAMED_VALUES.get(field, {})):
            raise ValueError(f"{flag} {value} was renamed to {values[value]}")
