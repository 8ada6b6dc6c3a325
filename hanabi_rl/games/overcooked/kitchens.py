"""Kitchens as data: grids, start positions, and the names that other projects give them."""

from __future__ import annotations

import dataclasses
from functools import cached_property

Place = tuple[int, int]
"""(x, y) of a cell: x counts columns from the left, y rows from the top."""

FLOOR, COUNTER, ONIONS, DISHES, POT, SERVING = " XODPS"
"""Letters of a grid."""
MAX_COUNTERS = 32
"""Counters within reach, one bit each of a uint32."""
MAX_FLOOR = 64
"""Floor cells, numbered by 6 bits."""
MAX_POTS = 4
"""Pots, 5 bits each of a uint32 that also counts steps."""


@dataclasses.dataclass(frozen=True)
class Kitchen:
    """A kitchen of Overcooked for two players. Hashable, so static under `jax.jit`.

    Raises:
        ValueError: the grid is not a closed rectangle of known letters, a part is too large, or a
            player starts outside the floor.
    """

    name: str
    """Name as in overcooked-ai 1.1.0 or, if it lacks the kitchen, in ZSC-Eval."""
    rows: tuple[str, ...]
    """Grid: floor, X counter, O onions, D dishes, P pot, S serving place."""
    starts: tuple[tuple[str, tuple[Place, Place]], ...]
    """Start positions of player 0 and player 1 by the name of their source; both face up."""

    def __post_init__(self) -> None:
        cells = "".join(self.rows)
        border = self.rows[0] + self.rows[-1] + "".join(row[0] + row[-1] for row in self.rows)
        if len({len(row) for row in self.rows}) != 1 or FLOOR in border:
            raise ValueError(f"{self.name}: expected a rectangle without floor at its edge")
        if unknown := set(cells) - {FLOOR, COUNTER, ONIONS, DISHES, POT, SERVING}:
            raise ValueError(f"{self.name}: expected letters XODPS or space, got {min(unknown)!r}")
        for what, places, limit in (
            ("floor cells", self.floor, MAX_FLOOR),
            ("counters", self.counters, MAX_COUNTERS),
            ("pots", self.pots, MAX_POTS),
        ):
            if len(places) > limit:
                raise ValueError(f"{self.name}: expected at most {limit} {what}, got {len(places)}")
        for source, places in self.starts:
            if len(set(places)) != 2 or not set(places) <= set(self.floor):
                raise ValueError(
                    f"{self.name}: expected two floor cells as starts {source!r}, got {places}"
                )

    @property
    def height(self) -> int:
        """Number of rows."""
        return len(self.rows)

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.rows[0])

    def letter(self, place: Place) -> str:
        """Letter of the grid at `place`."""
        return self.rows[place[1]][place[0]]

    def places(self, letter: str) -> tuple[Place, ...]:
        """Cells with this letter, row by row."""
        return tuple(
            (x, y)
            for y, row in enumerate(self.rows)
            for x, cell in enumerate(row)
            if cell == letter
        )

    @cached_property
    def floor(self) -> tuple[Place, ...]:
        """Floor cells; a state names a player's cell by its number here."""
        return self.places(FLOOR)

    @cached_property
    def counters(self) -> tuple[Place, ...]:
        """Counters next to the floor, the only ones that can hold things; numbered as in a
        state."""
        floor = set(self.floor)
        return tuple(
            (x, y)
            for x, y in self.places(COUNTER)
            if {(x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)} & floor
        )

    @cached_property
    def pots(self) -> tuple[Place, ...]:
        """Pots, numbered as in a state."""
        return self.places(POT)

    def start(self, source: str | None = None) -> tuple[Place, Place]:
        """Start positions by the name of their source (default: the first of `starts`).

        Raises:
            ValueError: this kitchen has no such starts.
        """
        starts = dict(self.starts)
        if source is None:
            return self.starts[0][1]
        if source not in starts:
            raise ValueError(
                f"starts: expected one of {', '.join(starts)} in {self.name}, got {source!r}"
            )
        return starts[source]


def _kitchen(name: str, grid: str, **starts: tuple[Place, Place]) -> Kitchen:
    return Kitchen(name, tuple(grid.split("/")), tuple(starts.items()))


_ALL = (
    _kitchen(
        "cramped_room",
        "XXPXX/O   O/X   X/XDXSX",
        humans=((1, 2), (3, 1)),
        overcooked_ai=((1, 2), (3, 1)),
        jaxmarl=((1, 1), (3, 1)),
        jaxmarl_v2=((3, 1), (1, 1)),
    ),
    _kitchen(
        "asymmetric_advantages",
        "XXXXXXXXX/O XSXOX S/X   P   X/X   P   X/XXXDXDXXX",
        humans=((6, 2), (1, 3)),
        overcooked_ai=((6, 2), (1, 3)),
        jaxmarl=((2, 3), (5, 3)),
        jaxmarl_v2=((2, 3), (5, 3)),
    ),
    _kitchen(
        "coordination_ring",
        "XXXPX/X   P/D X X/O   X/XOSXX",
        humans=((2, 1), (1, 2)),
        overcooked_ai=((2, 1), (1, 2)),
        jaxmarl=((2, 1), (1, 2)),
        jaxmarl_v2=((2, 1), (1, 2)),
    ),
    _kitchen(
        "forced_coordination",
        "XXXPX/O X P/O X X/D X X/XXXSX",
        humans=((3, 1), (1, 2)),
        overcooked_ai=((3, 1), (1, 2)),
        jaxmarl=((1, 2), (3, 1)),
        jaxmarl_v2=((3, 1), (1, 2)),
    ),
    _kitchen(
        "counter_circuit",
        "XXXPPXXX/X      X/D XXXX S/X      X/XXXOOXXX",
        humans=((6, 3), (1, 3)),
        overcooked_ai=((3, 3), (3, 1)),
        jaxmarl=((2, 1), (6, 3)),
        jaxmarl_v2=((6, 3), (2, 1)),
    ),
    _kitchen(
        "bottleneck",
        "XXOXDXX/X  X  X/X  X  X/X     X/XSXXPPX",
        overcooked_ai=((2, 1), (4, 1)),
    ),
    _kitchen(
        "large_room",
        "XXXPXXX/O     O/X     X/X     X/X     X/X     X/XDXXXSX",
        overcooked_ai=((1, 5), (5, 1)),
    ),
    _kitchen(
        "centre_objects",
        "XXXXXXX/X     X/X P S X/X     X/X D O X/X     X/XXXXXXX",
        overcooked_ai=((3, 1), (3, 5)),
    ),
    _kitchen(
        "centre_pots",
        "XXXOSSX/X     X/X P P X/X     X/XDDOXXX",
        overcooked_ai=((3, 1), (3, 3)),
    ),
    _kitchen(
        "small_corridor",
        "XXXXXOXDXXXXX/X     X     X/X  XXXXXXX  X/X           X/XSXXXXXXXXPPX",
        overcooked_ai=((3, 1), (9, 1)),
    ),
    _kitchen(
        "random0_medium",
        "XXXXXXXX/X   O  P/P  X   S/X  X   X/XDXXXXXX",
        zsc_eval=((1, 3), (6, 2)),
    ),
)
KITCHENS: dict[str, Kitchen] = {kitchen.name: kitchen for kitchen in _ALL}
"""Kitchens by name: five of Carroll et al. (2019), four of Knott et al. (2021), two of ZSC-Eval."""

ALIASES = {
    "simple": "cramped_room",
    "unident_s": "asymmetric_advantages",
    "asymm_advantages": "asymmetric_advantages",
    "random1": "coordination_ring",
    "coord_ring": "coordination_ring",
    "random0": "forced_coordination",
    "forced_coord": "forced_coordination",
    "random3": "counter_circuit",
    "counter_circuit_o_1order": "counter_circuit",
    "bothway_coordination": "random0_medium",
    "blocked_corridor": "small_corridor",
}
"""Names in papers, in ZSC-Eval, in jaxmarl, in overcooked-ai and in its human games."""


def load_kitchen(name: str | Kitchen) -> Kitchen:
    """Return a kitchen by its name or an alias; a `Kitchen` is returned as it is.

    Raises:
        ValueError: no kitchen has this name.
    """
    if isinstance(name, Kitchen):
        return name
    found = KITCHENS.get(ALIASES.get(name, name))
    if found is None:
        known = ", ".join([*KITCHENS, *ALIASES])
        raise ValueError(f"kitchen: expected one of {known}, got {name!r}")
    return found
