"""A game of Overcooked in plain Python, written from the rules: nothing here is of the package, so
that its states, rewards and observations can be held against the package's.

Things are letters: "o" onion, "d" dish, "s" soup. A pot is a list [onions, steps cooked].
"""

from __future__ import annotations

from typing import Any

import numpy as np

MOVES = [(0, -1), (0, 1), (1, 0), (-1, 0)]
INTERACT = 5


class PlainOvercooked:
    """One game. `places`, `directions` (as dx, dy) and `hands` are lists of two."""

    def __init__(self, rows: Any, places: Any, horizon: int = 400) -> None:
        self.rows, self.horizon = [str(row) for row in rows], horizon
        self.places, self.directions = [tuple(place) for place in places], [(0, -1), (0, -1)]
        self.hands: list[str | None] = [None, None]
        self.lying: dict[tuple[int, int], str] = {}
        self.pots = {at: [0, 0] for at in self.find("P")}
        self.time = self.points = 0
        self.events: list[list[str]] = [[], []]  # of each player's last action

    def find(self, letter: str) -> list[tuple[int, int]]:
        return [(x, y) for y, row in enumerate(self.rows) for x, c in enumerate(row) if c == letter]

    def step(self, actions: Any) -> tuple[int, list[int]]:
        """Points, and the shaping reward of each player."""
        begun = [at for at, (onions, _) in self.pots.items() if onions]
        before, stood = self.points, list(zip(self.places, self.directions, strict=True))
        self.events = [[{4: "stay", INTERACT: ""}.get(int(a), "move")] for a in actions]
        shaped = [self.interact(p, len(begun)) if actions[p] == INTERACT else 0 for p in (0, 1)]
        wanted = []
        for p in (0, 1):
            at = self.places[p]
            if actions[p] < 4:
                self.directions[p] = MOVES[actions[p]]
                to = (at[0] + self.directions[p][0], at[1] + self.directions[p][1])
                at = to if self.rows[to[1]][to[0]] == " " else at
            wanted.append(at)
        if wanted[0] != wanted[1] and wanted != self.places[::-1]:
            self.places = wanted
        for p, pose in enumerate(zip(self.places, self.directions, strict=True)):
            if actions[p] < 4 and pose == stood[p]:
                self.events[p].append("idle_move")
        for pot in self.pots.values():
            if pot[0] == 3 and pot[1] < 20:
                pot[1] += 1
        self.time += 1
        return self.points - before, shaped

    def interact(self, p: int, begun: int) -> int:
        (x, y), (dx, dy), hand = self.places[p], self.directions[p], self.hands[p]
        at = x + dx, y + dy
        letter = self.rows[at[1]][at[0]]
        names = {"o": "onion", "d": "dish", "s": "soup"}
        says = self.events[p].append
        if letter == "X":
            if hand and at not in self.lying:
                says(f"put_{names[hand]}_on_counter")
                self.lying[at], self.hands[p] = hand, None
            elif not hand and at in self.lying:
                self.hands[p] = self.lying.pop(at)
                says(f"take_{names[self.hands[p] or '']}_from_counter")
            else:
                says("idle_interact_counter")
        elif letter == "O" and not hand:
            says("take_onion_from_dispenser")
            self.hands[p] = "o"
        elif letter == "D" and not hand:
            useful = "d" not in self.lying.values() and self.hands.count("d") < begun
            self.hands[p] = "d"
            says("take_dish_from_dispenser")
            if useful:
                says("take_useful_dish")
            return 3 if useful else 0
        elif letter in "PS" and hand:
            if letter == "S" and hand == "s":
                says("serve_soup")
                self.hands[p] = None
                self.points += 20
            elif letter == "P" and hand == "o" and self.pots[at][0] < 3:
                says("put_onion_in_pot")
                self.pots[at][0] += 1
                self.hands[p] = None
                return 3
            elif letter == "P" and hand == "d" and self.pots[at] == [3, 20]:
                says("take_soup_from_pot")
                self.pots[at], self.hands[p] = [0, 0], "s"
                return 5
        else:
            says("idle_interact_nothing")
        return 0

    def scene(self) -> dict[str, Any]:
        """The fields of the package's `Scene`."""
        codes = {None: 0, "o": 1, "d": 2, "s": 3}
        return dict(
            places=tuple(self.places),
            directions=tuple(MOVES.index(d) for d in self.directions),
            hands=tuple(codes[hand] for hand in self.hands),
            pots={at: pot[0] + pot[1] for at, pot in self.pots.items() if pot[0]},
            counters={at: codes[thing] for at, thing in self.lying.items()},
            step=self.time,
            soups=self.points // 20,
        )

    def observation(self) -> np.ndarray:
        """What both players see, int[2, H, W, 26]."""
        seen = np.zeros((2, len(self.rows), len(self.rows[0]), 26), int)
        for me in (0, 1):
            view = seen[me]
            for channel, p in ((0, me), (1, 1 - me)):
                x, y = self.places[p]
                view[y, x, channel] = 1
                view[y, x, 2 + 4 * channel + MOVES.index(self.directions[p])] = 1
                self._mark(view[y, x], self.hands[p])
            for letter, channel in zip("PXODS", (10, 11, 12, 14, 15), strict=True):
                for x, y in self.find(letter):
                    view[y, x, channel] = 1
            for (x, y), thing in self.lying.items():
                self._mark(view[y, x], thing)
            for (x, y), (onions, cooked) in self.pots.items():
                if onions < 3:
                    view[y, x, 16] = onions
                else:
                    view[y, x, [18, 20, 21]] = 3, 20 - cooked, cooked == 20
            if self.horizon - self.time < 40:
                view[..., 25] = 1
        return seen

    @staticmethod
    def _mark(cell: np.ndarray, thing: str | None) -> None:
        if thing == "s":
            cell[[18, 21]] = 3, 1
        elif thing:
            cell[{"d": 22, "o": 23}[thing]] = 1
