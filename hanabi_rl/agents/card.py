"""Fields of a model card as text, for the terminal and the Hub."""

from collections.abc import Mapping
from typing import Any


def in_words(card: Mapping[str, Any], field: str) -> str:
    """Return a field that the card has, as text."""
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
        return "not measured" if field in ("selfplay", "prediction") else "not recorded"
    return str(value) or "not recorded"


def _selfplay(score: Mapping[str, Any]) -> str:
    low, high = score["ci95"]
    return (
        f"{score['mean']} [{low}, {high}], {score['zero_rate']:.1%} zero, "
        f"{score['games']:,} {'sampled' if score.get('sampled') else 'greedy'} games"
    )


def _prediction(results: Mapping[str, Any]) -> str:
    parts = []
    if "accuracy" in results:
        parts.append(f"{_with_interval(results, 'accuracy')} of moves")
    if "cross_entropy" in results:
        parts.append(f"{_with_interval(results, 'cross_entropy')} nats per decision")
    return f"{', '.join(parts) or 'measured'} (on {results['file']})"


def _with_interval(results: Mapping[str, Any], name: str) -> str:
    low_high = results.get(f"{name}_ci95")
    interval = f" [{low_high[0]:.3f}, {low_high[1]:.3f}]" if low_high else ""
    return f"{results[name]:.3f}{interval}"
