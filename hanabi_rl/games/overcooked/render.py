"""A game of Overcooked as text and as SVG, for people."""

from __future__ import annotations

from xml.sax.saxutils import escape

from hanabi_rl.games.overcooked import kitchens
from hanabi_rl.games.overcooked.dynamics import SOUP_POINTS
from hanabi_rl.games.overcooked.kitchens import Kitchen, Place
from hanabi_rl.games.overcooked.state import (
    DISH,
    FULL,
    ONION,
    READY,
    SOUP,
    Scene,
    State,
    unpack_scene,
)

_ARROWS = "^v><"
_LETTERS = {ONION: "o", DISH: "d", SOUP: "s"}

_CELL = 40
_COLORS = {
    kitchens.FLOOR: "#efe6d5",
    kitchens.COUNTER: "#b08d57",
    kitchens.ONIONS: "#d9b44a",
    kitchens.DISHES: "#9fb7c9",
    kitchens.POT: "#4a4a4a",
    kitchens.SERVING: "#8cbf88",
}
_PLAYERS = ("#2563eb", "#16a34a")
_THINGS = {
    ONION: ("#f2d16b", "#8a6d1f"),
    DISH: ("#ffffff", "#6b7280"),
    SOUP: ("#e8742c", "#ffffff"),
}


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
    width, height = kitchen.width * _CELL, kitchen.height * _CELL
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" text-anchor="middle">',
        f"<title>{escape(_title(kitchen, scene))}</title>",
    ]
    for y, row in enumerate(kitchen.rows):
        for x, letter in enumerate(row):
            parts.append(
                f'<rect x="{x * _CELL}" y="{y * _CELL}" width="{_CELL}" height="{_CELL}" '
                f'fill="{_COLORS[letter]}" stroke="#fff" stroke-width="0.5"/>'
            )
            parts += _terrain_svg(letter, (x, y))
    for place, content in scene.pots.items():
        parts += _pot_svg(content, place)
    for place, thing in scene.counters.items():
        parts.append(_thing_svg(thing, *_middle(place), 10))
    for player in range(2):
        parts += _player_svg(scene, player)
    return "\n".join([*parts, "</svg>", ""])


def _middle(place: Place) -> tuple[float, float]:
    return (place[0] + 0.5) * _CELL, (place[1] + 0.5) * _CELL


def _terrain_svg(letter: str, place: Place) -> list[str]:
    x, y = _middle(place)
    if letter == kitchens.ONIONS:
        return [_thing_svg(ONION, x + dx, y + dy, 7) for dx, dy in ((-7, 5), (7, 5), (0, -6))]
    if letter == kitchens.DISHES:
        return [_thing_svg(DISH, x, y + dy, 11) for dy in (4, 0, -4)]
    if letter == kitchens.POT:
        return [f'<circle cx="{x}" cy="{y}" r="15" fill="#222" stroke="#999" stroke-width="2"/>']
    if letter == kitchens.SERVING:
        return [f'<text x="{x}" y="{y + 4}" font-size="11" fill="#1f4d1c">serve</text>']
    return []


def _pot_svg(content: int, place: Place) -> list[str]:
    x, y = _middle(place)
    if content < FULL:
        return [_thing_svg(ONION, x + 9 * n - 5, y, 5) for n in range(content)]
    text = "ok" if content == READY else str(READY - content)
    return [
        _thing_svg(SOUP, x, y, 12),
        f'<text x="{x}" y="{y + 4}" font-size="12" fill="#fff">{text}</text>',
    ]


def _thing_svg(thing: int, x: float, y: float, radius: int) -> str:
    fill, line = _THINGS[thing]
    return f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{fill}" stroke="{line}"/>'


def _player_svg(scene: Scene, player: int) -> list[str]:
    x, y = _middle(scene.places[player])
    turn = (0, 180, 90, 270)[scene.directions[player]]
    held = scene.hands[player]
    return [
        f'<g transform="rotate({turn} {x} {y})">'
        f'<path d="M {x - 8} {y - 11} L {x} {y - 19} L {x + 8} {y - 11} Z" '
        f'fill="{_PLAYERS[player]}"/></g>',
        f'<circle cx="{x}" cy="{y}" r="13" fill="{_PLAYERS[player]}"/>',
        _thing_svg(held, x, y, 9)
        if held
        else f'<text x="{x}" y="{y + 5}" font-size="13" fill="#fff">{player}</text>',
    ]
