"""Pictures of a game: as text to the letter, as SVG by what is drawn where."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np

from hanabi_rl.games.overcooked import KITCHENS, Scene, load_kitchen, pack_scenes
from hanabi_rl.games.overcooked.render import render_svg, render_text, scene_svg

RING = load_kitchen("coordination_ring")
SCENE = Scene(
    places=((3, 2), (1, 3)),
    directions=(2, 3),
    hands=(2, 0),
    pots={(3, 0): 2, (4, 1): 17},
    counters={(2, 2): 3, (0, 1): 1},
    step=37,
    soups=4,
)
EMPTY = Scene(places=((3, 2), (1, 3)))


def test_text():
    assert render_text(RING, pack_scenes(RING, [SCENE])) == "\n".join(
        [
            "coordination_ring, step 37, 80 points",
            "X  X  X  P2oX",
            "Xo          P6",
            "D     Xs >0dX",
            "O  <1       X",
            "X  O  S  X  X",
        ]
    )
    ready = pack_scenes(RING, [Scene(((1, 1), (2, 1)), pots={(3, 0): 23})])
    assert render_text(RING, ready).splitlines()[1] == "X  X  X  PokX"


SVG = "{http://www.w3.org/2000/svg}"


def drawn_at(tree):
    """Top-level groups by the cell in whose middle they are."""
    found = {}
    for group in tree.findall(f"{SVG}g"):
        x, y = map(float, re.match(r"translate\((\S+) (\S+)\)", group.get("transform")).groups())
        found.setdefault((int(x // 40), int(y // 40)), []).append(group)
        assert (x % 40, y % 40) == (20, 20)
    return found


def shape(group):
    """What is drawn, without its place."""
    return [ElementTree.tostring(part) for part in group]


def test_svg_draws_every_cell_player_and_thing():
    tree = ElementTree.fromstring(render_svg(RING, pack_scenes(RING, [SCENE])))
    assert len(tree.findall(f"{SVG}rect")) == 25
    empty = drawn_at(ElementTree.fromstring(render_svg(RING, pack_scenes(RING, [EMPTY]))))
    at = drawn_at(tree)
    terrain = [(x, y) for y, row in enumerate(RING.rows) for x, c in enumerate(row) if c in "ODPS"]
    assert set(empty) == {*terrain, *EMPTY.places}
    more = {place: groups[1:] if place in terrain else groups for place, groups in at.items()}
    for place in (*SCENE.places, *SCENE.pots, *SCENE.counters):
        assert len(more.pop(place)) == 1, place
    assert not any(more.values())
    for player, place in enumerate(SCENE.places):
        (group,) = at[place]
        assert group.get("class") == f"player-{player}"
        turn = [g.get("transform") for g in group if "rotate" in g.get("transform", "")]
        assert turn == [f"translate(0 0) rotate({(90, 270)[player]})"]
    assert [text.text for text in tree.iter(f"{SVG}text")] == ["serve", "6"]


def test_svg_shows_pots_and_hands():
    def drawn(place, **scene):
        svg = render_svg(RING, pack_scenes(RING, [Scene(((1, 1), (2, 1)), **scene)]))
        return drawn_at(ElementTree.fromstring(svg))[place]

    pots = [drawn((3, 0), pots={(3, 0): content})[1:] for content in (1, 2, 3, 13, 22, 23)]
    assert [len(g.findall(f"{SVG}g")) for (g,) in pots] == [1, 2, 0, 0, 0, 0]  # onions
    assert [g.findtext(f"{SVG}text") for (g,) in pots] == [None, None, "20", "10", "1", None]
    arcs = [c.get("stroke-dasharray") for (g,) in pots for c in g if c.get("stroke-dasharray")]
    around = 2 * np.pi * 15
    cooked = [float(arc.split()[0]) / around for arc in arcs]
    np.testing.assert_allclose(cooked, [0, 0.5, 19 / 20, 1], atol=1e-3)

    assert len({str(shape(drawn((1, 1), hands=(thing, 0))[0])) for thing in range(4)}) == 4
    on_counter = [drawn((2, 2), counters={(2, 2): thing})[0] for thing in (1, 2, 3)]
    for thing, group in enumerate(on_counter, 1):  # the same pictures as in hands
        assert shape(drawn((1, 1), hands=(thing, 0))[0][-1]) == shape(group)


def test_one_player_is_marked():
    scenes = [scene_svg(SCENE, me) for me in (None, 0, 1)]
    marked = [
        [
            g.get("class")
            for g in ElementTree.fromstring(f"<g>{s}</g>")
            if "#ffe066" in str(shape(g))
        ]
        for s in scenes
    ]
    assert marked == [[], ["player-0"], ["player-1"]]


def test_every_kitchen_can_be_drawn():
    for kitchen in KITCHENS.values():
        state = pack_scenes(kitchen, [Scene(kitchen.start())])
        ElementTree.fromstring(render_svg(kitchen, state))
        lines = render_text(kitchen, state).splitlines()[1:]
        drawn = [line.ljust(3 * kitchen.width)[::3] for line in lines]
        expected = [list(row) for row in kitchen.rows]
        for x, y in kitchen.start():
            expected[y][x] = "^"
        assert drawn == ["".join(row) for row in expected]
