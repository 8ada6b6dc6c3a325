"""Actions for games of Overcooked that are random and serve soups nevertheless; features of played
games."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from support.plain_overcooked import INTERACT, MOVES, PlainOvercooked

RANDOM = [0.15, 0.15, 0.15, 0.15, 0.05, 0.35]
"""Probability of each action: mostly interacts."""


def actions_with_soups(games: Sequence[PlainOvercooked], steps: int, seed: int) -> np.ndarray:
    """int[steps, games, 2] for games that begin as given. In even games both players run errands
    for soups most of the time; in odd games all actions are random."""
    rng = np.random.default_rng(seed)
    actions = rng.choice(6, (steps, len(games), 2), p=RANDOM)
    for g in range(0, len(games), 2):
        game = copy.deepcopy(games[g])
        for t in range(steps):
            for p in (0, 1):
                if rng.random() < 0.8:
                    actions[t, g, p] = errand(game, p, rng)
            game.step(actions[t, g])
    return actions


def errand(game: PlainOvercooked, p: int, rng: np.random.Generator) -> int:
    """The next action towards a thing that helps: a pot, a dispenser, a counter for the partner."""
    hand, ready = game.hands[p], [at for at, pot in game.pots.items() if pot == [3, 20]]
    begun = [at for at, pot in game.pots.items() if pot[0] == 3]
    open_pots = [at for at, pot in game.pots.items() if pot[0] < 3]
    lying = {thing: [at for at, t in game.lying.items() if t == thing] for thing in "ods"}
    free = [at for at in game.find("X") if at not in game.lying]
    goals = {
        "s": [game.find("S"), free],
        "d": [ready, free],
        "o": [open_pots, free],
        None: [lying["s"], lying["d"] if begun else [], lying["o"] if open_pots else []],
    }[hand]
    if hand is None:
        both = ["D", "O"] if begun else ["O", "D"]
        goals = [*goals, *(game.find(letter) for letter in both)]
    for goal in goals:
        action = towards(game, p, set(goal))
        if action is not None and rng.random() < 0.9:
            return action
    return int(rng.integers(6))


def towards(game: PlainOvercooked, p: int, goal: set[tuple[int, int]]) -> int | None:
    """The first action of a shortest way to face a cell of `goal` and interact; None without."""
    start = game.places[p], game.directions[p]
    came, queue = {start: None}, deque([start])
    while queue:
        at, facing = node = queue.popleft()
        if (at[0] + facing[0], at[1] + facing[1]) in goal:
            first = INTERACT
            while came[node] is not None:
                node, first = came[node]
            return first
        for action, (dx, dy) in enumerate(MOVES):
            to = at[0] + dx, at[1] + dy
            free = game.rows[to[1]][to[0]] == " " and to != game.places[1 - p]
            after = (to if free else at, (dx, dy))
            if after not in came:
                came[after] = (node, action)
                queue.append(after)
    return None


def kitchen_game(kitchen):
    """`Overcooked` in a kitchen."""
    from hanabi_rl.games.overcooked import Overcooked

    return Overcooked(kitchen=kitchen.name)


def play_traces(starts, policies, steps: int, seed: int = 0):
    """`Traces` of two policies from `starts` [N], each taking its most likely action."""
    from hanabi_rl.games.overcooked.traces import Traces
    from hanabi_rl.play.game_episodes import play_episodes

    rules, count = policies[0].rules, len(starts.players)
    played = play_episodes(
        policies, count, seed, sample=False, starts=rules.of_core(starts), max_steps=steps
    )
    return Traces(rules.layout, starts, played.actions, played.lengths)


def recorded_games(lengths, kitchens=("cramped_room",), pairs=None, is_test=None, seed=0):
    """`RecordedGames` with soups: game g in kitchen g % K, scores by `PlainOvercooked`."""
    from hanabi_rl.games.overcooked.kitchens import load_kitchen
    from hanabi_rl.games.overcooked.recorded_games import RecordedGames

    numbers = np.arange(len(lengths)) % len(kitchens)
    layouts = [load_kitchen(kitchens[number]) for number in numbers]
    games = [PlainOvercooked(layout.rows, layout.start(None)) for layout in layouts]
    places = np.array([game.places for game in games], np.uint8)
    actions = actions_with_soups(games, max(lengths), seed).astype(np.uint8)
    for g, (game, length) in enumerate(zip(games, lengths, strict=True)):
        for t in range(length):
            game.step(actions[t, g])
    return RecordedGames(
        kitchens=tuple(kitchens),
        layout=numbers.astype(np.uint8),
        starts=places,
        lengths=np.array(lengths, np.int32),
        actions=np.concatenate([actions[:n, g] for g, n in enumerate(lengths)]),
        scores=np.array([game.points for game in games], np.int32),
        pairs=np.arange(len(lengths), dtype=np.int32) if pairs is None else np.int32(pairs),
        is_test=np.zeros(len(lengths), bool) if is_test is None else np.array(is_test),
    )


def response_features(as_player_0: Any, as_player_1: Any) -> np.ndarray:
    """Features float64[28] of a best response as player 0, then as player 1, in games with its
    partner (`Traces`): the seats are never pooled."""
    from hanabi_rl.evaluation.overcooked.event_features import event_counts
    from hanabi_rl.games.overcooked.events import behaviour_features

    games = enumerate((as_player_0, as_player_1))
    means = [event_counts(traces)[:, seat].mean(axis=0) for seat, traces in games]
    return behaviour_features(np.array(means)).reshape(-1)
