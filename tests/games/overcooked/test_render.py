"""Pictures of a game: as text to the letter, as SVG by what is drawn where."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from hanabi_rl.games.overcooked import KITCHENS, Scene, load_kitchen, pack_scenes
from hanabi_rl.games.overcooked.render import render_svg, render_text

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


def test_svg_draws_every_cell_player_and_thing():
    tree = ElementTree.fromstring(render_svg(RING, pack_scenes(RING, [SCENE])))
    name = "{http://www.w3.org/2000/svg}"
    assert len(tree.findall(f"{name}rect")) == 25
    at = {(float(c.get("cx")), float(c.get("cy"))) for c in tree.iter(f"{name}circle")}
    for x, y in (*SCENE.places, *SCENE.pots, *SCENE.counters):
        assert any(abs(cx - 40 * x - 20) < 20 and abs(cy - 40 * y - 20) < 20 for cx, cy in at)
    assert [text.text for text in tree.iter(f"{name}text")] == ["serve", "6", "1"]
    turns = [g.get("transform").split("(")[1].split()[0] for g in tree.iter(f"{name}g")]
    assert turns == ["90", "270"]


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
