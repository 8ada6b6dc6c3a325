"""`hanabi-rl glossary`: terms of tables, options and presets."""

from __future__ import annotations

from typing import Annotated

import tyro

GLOSSARY: dict[str, str] = {
    "accuracy": "Fraction of recorded moves that equal the agent's greedy move.",
    "adhoc": "Agent or preset trained with many partners for play with unseen ones.",
    "BC": "Behavioural cloning: supervised learning of recorded moves; also its result, a clone.",
    "BR-Prox": "Return with partners, divided by the return of a best response to them.",
    "conventions": "Feature set: hint-history, and the meaning of hints by common conventions.",
    "cross-entropy": "Mean negative log-likelihood of recorded moves, nats per decision.",
    "cross-play": "Games between different policies, each in every seat.",
    "decision": "Move of the player to act; the idle seats of a timestep make none.",
    "facts": "Feature set (`--network.features`): exact card counts, hints, cards they touch.",
    "family": "Group of similar partners; the gauntlet's mean counts each family once.",
    "gauntlet": "Series with bundled partners of six families of agents and bots.",
    "hint-history": "Feature set: facts, and the state of the game at each card's hint.",
    "hint-outcomes": "Feature set: conventions, and how hinted cards turned out in this game.",
    "human proxy": "Agent that stands for humans in evaluation, such as a clone of their games.",
    "interval": "95% interval over the sampled unit, which is the deck in most tables.",
    "J_BR": "Mean return of a best response to one partner.",
    "KL": "KL(BC || policy): divergence of a policy from the clone, nats per decision.",
    "nats": "Unit of cross-entropy and KL: natural logarithm of probabilities.",
    "of best": "Mean over families, divided by that of the families' best responses.",
    "perfect": "Perfect rate: fraction of games with the maximum score.",
    "points": "Points of the fireworks when the game ends, also if all lives are lost.",
    "preset": "File of values that differ from an algorithm's defaults (`--preset NAME`).",
    "prior": "Former name of `pretrain`: a clone of many bots' games, where other clones start.",
    "score": "Points of the fireworks, 0 to 25; 0 if all lives are lost.",
    "self-play": "Games in which one policy holds every seat.",
    "series": "Games in a row with one partner, with rotating seats.",
    "unseen": "Partners that held no seat in the agent's training.",
    "worst": "Mean score with the family where it is lowest.",
    "zero": "Zero rate: fraction of games with score 0.",
}
"""Term -> meaning, in alphabetical order."""

_Term = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="[TERM]")]


def glossary(term: _Term = "") -> None:
    """Print the meaning of a term in tables, options and presets; without a term, of all.

    Args:
        term: a term, such as points or hint-history.
    """
    from hanabi_rl.evaluation.reporting.tables import text_rows, to_text
    from hanabi_rl.storage.words import did_you_mean

    if not term:
        print(to_text(text_rows([("term", "meaning"), *GLOSSARY.items()])))
        return
    found = {name.lower(): f"{name}: {meaning}" for name, meaning in GLOSSARY.items()}
    if term.lower() not in found:
        raise ValueError(
            f"expected a term of the glossary, got {term}{did_you_mean(term.lower(), found)}"
        )
    print(found[term.lower()])
