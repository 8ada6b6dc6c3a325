"""Fields of a model card in words, for the terminal and for the Hub: `in_words`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def in_words(card: Mapping[str, Any], field: str) -> str:
    """Return a field of a card, which the card has, as text for people."""
    value = card[field]
    if field == "training_partners":
        return ", ".join(dict.fromkeys(value)) or (
            "none" if card.get("algorithm") == "bc" else "itself"
        )
    if field == "selfplay" and value is not None:
        return _selfplay(value)
    if field == "prediction" and value is not None:
        return _prediction(value)
    if field == "scores":
        each = (f"{players} players {score['mean']:.2f}" for players, score in value.items())
        return ", ".join(each)
    if field == "parameters":
        return ", ".join(f"?{name}={each['default']}" for name, each in value.items()) or "none"
    if value is None:
        return "not measured" if field in ("selfplay", "prediction") else "not noted"
    return str(value) or "not noted"


def _selfplay(score: Mapping[str, Any]) -> str:
    low, high = score["ci95"]
    return (
        f"{score['mean']} [{low}, {high}], {score['zero_rate']:.1%} zero, "
        f"{score['games']:,} greedy games"
    )


def _prediction(figures: Mapping[str, Any]) -> str:
    """Only the figures that the card has."""
    parts = []
    if "accuracy" in figures:
        parts.append(f"{_figure(figures, 'accuracy')} of the moves")
    if "cross_entropy" in figures:
        parts.append(f"{_figure(figures, 'cross_entropy')} nats per decision")
    return f"{', '.join(parts) or 'measured'} (on {figures['file']})"


def _figure(figures: Mapping[str, Any], name: str) -> str:
    low_high = figures.get(f"{name}_ci95")
    interval = f" [{low_high[0]:.3f}, {low_high[1]:.3f}]" if low_high else ""
    return f"{figures[name]:.3f}{interval}"
