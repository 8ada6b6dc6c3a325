"""A game of Overcooked as text and as SVG, for people."""

from __future__ import annotations

import math
from xml.sax.saxutils import escape

from hanabi_rl.games.overcooked import kitchens
from hanabi_rl.games.overcooked.dynamics import SOUP_POINTS
from hanabi_rl.games.overcooked.kitchens import Kitchen, Place
from hanabi_rl.games.overcooked.state import (
    COOK_TIME,
    DISH,
    FULL,
    ONION,
    READY,
    SOUP,
    Scene,
    State,
    unpack_scene,
)
from hanabi_rl.games.overcooked.transitions import OFFSETS

_ARROWS = "^v><"
_LETTERS = {ONION: "o", DISH: "d", SOUP: "s"}

CELL = 40
"""Side of a cell in an SVG image, in its units."""
_TERRAIN = {
    kitchens.FLOOR: "#efe9dd",
    kitchens.COUNTER: "#b08d57",
    kitchens.ONIONS: "#b08d57",
    kitchens.DISHES: "#b08d57",
    kitchens.POT: "#5b616e",
    kitchens.SERVING: "#1d6f63",
}
_PLAYERS = ("#1f5ab8", "#d9480f")  # as blue and orange, distinct to colour-blind people
PLAYER_LOOKS = ("blue (round hat)", "orange (square hat)")
"""Look of each player in an SVG image."""


def render_text(kitchen: Kitchen, state: State, game: int = 0) -> str:
    """Return one game of a batch as text.

    A cell is three characters. Players: arrow, number, thing in hand. Pots: ``P``, then onions
    (``1o``), or steps until the soup is ready (``12``), or ``ok``. Things: o onion, d dish, s soup.
    """
    scene = unpack_scene(kitchen, state, game)
    rows = [
        "".join(_cell_text(kitchen, scene, (x, y)) for x in range(kitchen.width)).rstrip()
        for y in range(kitchen.height)
    ]
    return "\n".join([_title(kitchen, scene), *rows])


def _title(kitchen: Kitchen, scene: Scene) -> str:
    return f"{kitchen.name}, step {scene.step}, {SOUP_POINTS * scene.soups} points"


def _cell_text(kitchen: Kitchen, scene: Scene, place: Place) -> str:
    if place in scene.places:
        player = scene.places.index(place)
        held = _LETTERS.get(scene.hands[player], " ")
        return f"{_ARROWS[scene.directions[player]]}{player}{held}"
    content = scene.pots.get(place, 0)
    inside = _pot_text(content) if content else _LETTERS.get(scene.counters.get(place, 0), "")
    return f"{kitchen.letter(place)}{inside}".ljust(3)


def _pot_text(content: int) -> str:
    if content < FULL:
        return f"{content}o"
    return "ok" if content == READY else str(READY - content)


def render_svg(kitchen: Kitchen, state: State, game: int = 0) -> str:
    """Return one game of a batch as an SVG image."""
    scene = unpack_scene(kitchen, state, game)
    width, height = kitchen.width * CELL, kitchen.height * CELL
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" text-anchor="middle">\n'
        f"<title>{escape(_title(kitchen, scene))}</title>\n"
        f"{terrain_svg(kitchen)}\n{scene_svg(scene)}\n</svg>\n"
    )


def terrain_svg(kitchen: Kitchen) -> str:
    """SVG elements of the kitchen, without contents and players."""
    parts = []
    for y, row in enumerate(kitchen.rows):
        for x, letter in enumerate(row):
            parts.append(
                f'<rect x="{x * CELL}" y="{y * CELL}" width="{CELL}" height="{CELL}" '
                f'fill="{_TERRAIN[letter]}" stroke="#0003"/>'
            )
            parts += _terrain_svg(letter, (x, y))
    return "\n".join(parts)


def scene_svg(scene: Scene, me: int | None = None) -> str:
    """SVG elements of pots' and counters' contents and of both players.

    Args:
        scene: the moment.
        me: player on a yellow square (None: neither).
    """
    parts = [_pot_svg(content, place) for place, content in scene.pots.items()]
    parts += [_thing_svg(thing, *_middle(place)) for place, thing in scene.counters.items()]
    parts += [_player_svg(scene, player, player == me) for player in range(2)]
    return "\n".join(parts)


def icon_svg(thing: int) -> str:
    """A thing as an SVG image without a title."""
    return f'<svg viewBox="-12 -13 24 24" aria-hidden="true">{_thing_svg(thing, 0, 0)}</svg>'


def _middle(place: Place) -> tuple[float, float]:
    return (place[0] + 0.5) * CELL, (place[1] + 0.5) * CELL


def _at(x: float, y: float, *parts: str, scale: float = 1, turn: int = 0) -> str:
    """Parts drawn around (0, 0), moved to (x, y)."""
    change = f"translate({x:g} {y:g})"
    change += f" rotate({turn})" if turn else ""
    change += f" scale({scale:g})" if scale != 1 else ""
    return f'<g transform="{change}">{"".join(parts)}</g>'


def _circle(
    radius: float, fill: str, line: str, width: float = 1, x: float = 0, y: float = 0
) -> str:
    return (
        f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{fill}" stroke="{line}" '
        f'stroke-width="{width:g}"/>'
    )


def _box(x: float, y: float, width: float, height: float, fill: str, line: str) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="2" fill="{fill}" '
        f'stroke="{line}"/>'
    )


_THINGS = {
    ONION: '<path d="M-2-8-4-12M0-8V-12.5M2-8 4-12" stroke="#3f6b1f" stroke-width="2" fill="none"/>'
    '<path d="M0-9C5-4 9-1 9 3 9 8 4 9 0 9S-9 8-9 3C-9-1-5-4 0-9Z" fill="#f4cf63" '
    'stroke="#6b4a0c" stroke-width="1.3"/>'
    '<path d="M0-8C-4-1-4 5 0 9M0-8C4-1 4 5 0 9" fill="none" stroke="#a67c1e"/>',
    DISH: _circle(10, "#ffffff", "#4b5563", 1.3) + _circle(6, "#eef1f4", "#9aa5b1"),
    SOUP: _circle(10.5, "#ffffff", "#4b5563", 1.3)
    + _circle(7.5, "#8b4513", "#5c2c0a")
    + _circle(2, "#f4cf63", "none", 0, -2.5, -1.5)
    + _circle(2, "#f4cf63", "none", 0, 2.5, 2),
}


def _thing_svg(thing: int, x: float, y: float, scale: float = 1) -> str:
    return _at(x, y, _THINGS[thing], scale=scale)


def _terrain_svg(letter: str, place: Place) -> list[str]:
    x, y = _middle(place)
    if letter == kitchens.ONIONS:
        onions = [_thing_svg(ONION, dx, dy, 0.75) for dx, dy in ((-7, -3), (7, -3), (0, 0))]
        return [_at(x, y, *onions, _box(-15, 5, 30, 10, "#7a4f2a", "#4a2f17"))]
    if letter == kitchens.DISHES:
        return [_at(x, y, *(_thing_svg(DISH, 0, dy, 1.2) for dy in (5, 1, -3)))]
    if letter == kitchens.POT:
        handles = [_box(dx, -3, 6, 6, "#c9ced6", "#1f2329") for dx in (-19, 13)]
        return [_at(x, y, *handles, _circle(15, "#23262d", "#c9ced6", 2))]
    if letter == kitchens.SERVING:
        arrow = '<path d="M-5-1V-14H5V-1H11L0 9-11-1Z" fill="#ffffff"/>'
        return [_at(x, y, arrow, '<text y="17" font-size="9" fill="#ffffff">serve</text>')]
    return []


def _pot_svg(content: int, place: Place) -> str:
    if content < FULL:
        places = ((0, 0),) if content == 1 else ((-6, 0), (6, 0))
        return _at(*_middle(place), *(_thing_svg(ONION, *at, 0.7) for at in places))
    cooked = (content - FULL) / COOK_TIME  # an arc around the pot shows it
    length = 2 * math.pi * 15
    arc = (
        '<circle r="15" transform="rotate(-90)" fill="none" stroke="#ffd43b" stroke-width="4" '
        f'stroke-dasharray="{cooked * length:.1f} {length:.1f}"/>'
    )
    text = f'<text y="5" font-size="14" font-weight="bold" fill="#ffffff">{READY - content}</text>'
    check = '<path d="M-6 0-2 5 6-5" fill="none" stroke="#ffffff" stroke-width="4"/>'
    soup = _circle(12, "#8b4513", "#5c2c0a")
    return _at(*_middle(place), soup, arc, check if content == READY else text)


def _player_svg(scene: Scene, player: int, is_me: bool) -> str:
    color, held = _PLAYERS[player], scene.hands[player]
    direction = scene.directions[player]
    turned = _at(
        0,
        0,
        f'<path d="M-9-9 0-19 9-9Z" fill="{color}" stroke="#10131a"/>',
        *(_circle(3.5, "#f2c9a5", "#10131a", 1, dx, -11) for dx in (-9, 9)),
        turn=(0, 180, 90, 270)[direction],
    )
    hat = (
        "".join(_circle(4.5, "#ffffff", "#10131a", 1, dx, dy) for dx, dy in _PUFFS)
        + _circle(4.5, "#ffffff", "none", 0)
        if player == 0
        else _box(-6, -6, 12, 12, "#ffffff", "#10131a")
        + f'<path d="M-2-6V6M2-6V6" stroke="{color}" stroke-width="2"/>'
    )
    dx, dy = OFFSETS[direction]
    return _at(
        *_middle(scene.places[player]),
        _box(-18, -18, 36, 36, "#ffe066", "#10131a") if is_me else "",
        turned,
        _circle(12.5, color, "#10131a", 1.3),
        hat,
        _thing_svg(held, 14 * dx, 14 * dy, 0.85) if held else "",
    ).replace("<g ", f'<g class="player-{player}" ', 1)


_PUFFS = ((-4, -2), (4, -2), (0, 4))
