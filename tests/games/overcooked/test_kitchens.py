"""Kitchens as data: what each is made of, names, and what is refused."""

from __future__ import annotations

import pytest

from hanabi_rl.games.overcooked.kitchens import ALIASES, KITCHENS, Kitchen, load_kitchen

PARTS = {  # counted by hand on the drawings: floor, onions, dishes, pots, serving, counters
    "cramped_room": (6, 2, 1, 1, 1, 5),
    "asymmetric_advantages": (14, 2, 2, 2, 2, 12),
    "coordination_ring": (8, 2, 1, 2, 1, 7),
    "forced_coordination": (6, 2, 1, 2, 1, 7),
    "counter_circuit": (14, 2, 1, 2, 1, 16),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_a_kitchen(name):
    kitchen = KITCHENS[name]
    places = [kitchen.floor, *(kitchen.places(letter) for letter in "ODPS"), kitchen.counters]
    assert tuple(map(len, places)) == PARTS[name]


def test_there_are_eleven_kitchens_and_each_can_make_and_serve_soup():
    assert len(KITCHENS) == 11
    for kitchen in KITCHENS.values():
        assert {"O", "D", "P", "S"} <= set("".join(kitchen.rows)), kitchen.name
        assert all(len(row) == kitchen.width for row in kitchen.rows)


def test_the_four_sets_of_starts():
    five = list(PARTS)
    for name, kitchen in KITCHENS.items():
        sources = [source for source, _ in kitchen.starts]
        if name in five:
            assert sources == ["humans", "overcooked_ai", "jaxmarl", "jaxmarl_v2"]
    starts = {source: KITCHENS["counter_circuit"].start(source) for source in sources_of(five)}
    assert starts == {  # all four are different here
        "humans": ((6, 3), (1, 3)),
        "overcooked_ai": ((3, 3), (3, 1)),
        "jaxmarl": ((2, 1), (6, 3)),
        "jaxmarl_v2": ((6, 3), (2, 1)),
    }
    assert load_kitchen("bottleneck").start() == ((2, 1), (4, 1))


def sources_of(names):
    return [source for source, _ in KITCHENS[names[0]].starts]


def test_starts_and_grids_are_those_of_jaxmarl():
    from jaxmarl.environments.overcooked import overcooked_layouts
    from jaxmarl.environments.overcooked_v2.layouts import overcooked_v2_layouts

    from hanabi_rl.games.overcooked.jaxmarl import make_jaxmarl

    for name, layout in overcooked_layouts.items():
        kitchen = load_kitchen(name)
        theirs = make_jaxmarl(layout).kitchen
        assert theirs.rows == kitchen.rows, name
        assert theirs.starts == (("jaxmarl", kitchen.start("jaxmarl")),), name
        second = overcooked_v2_layouts[name].agent_positions
        assert tuple(second) == kitchen.start("jaxmarl_v2"), name


def test_aliases_name_kitchens():
    assert set(ALIASES.values()) <= set(KITCHENS) and not set(ALIASES) & set(KITCHENS)
    assert load_kitchen("random3") is KITCHENS["counter_circuit"]
    assert load_kitchen(KITCHENS["large_room"]) is KITCHENS["large_room"]


def test_what_is_refused():
    with pytest.raises(ValueError, match="kitchen: expected one of cramped_room, .*, got 'diner'"):
        load_kitchen("diner")
    with pytest.raises(ValueError, match="expected one of overcooked_ai in bottleneck, got 'jax"):
        KITCHENS["bottleneck"].start("jaxmarl")
    inside = ((1, 1), (2, 1))
    for rows, places, message in (
        (("XXXX", "X  X"), inside, "without floor at its edge"),
        (("XXXX", "X  X", "XXX"), inside, "a rectangle"),
        (("XXXX", "X  X", "XXTX"), inside, "expected letters XODPS or space, got 'T'"),
        (("XPPX", "P  P", "XPXX"), inside, "at most 4 pots, got 5"),
        (("X" * 20, "X" + 18 * " " + "X", "X" * 20), inside, "at most 32 counters, got 38"),
        (("XXXX", "X  X", "XXXX"), ((1, 1), (1, 1)), "two floor cells as starts 'me'"),
        (("XXXX", "X  X", "XXXX"), ((1, 1), (0, 1)), "two floor cells as starts 'me'"),
    ):
        with pytest.raises(ValueError, match=message):
            Kitchen("mine", rows, (("me", places),))
