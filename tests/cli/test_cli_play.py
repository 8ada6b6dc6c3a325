"""`hanabi-rl play`: who sits at the table."""

from __future__ import annotations

import pytest

from hanabi_rl.agents.names import load_policy
from hanabi_rl.cli.play import _line_up


@pytest.mark.parametrize("players", [None, 2, 3, 4, 5])
def test_without_a_name_the_partner_is_one_that_ships_and_plays_with_so_many(players):
    (name,) = _line_up([], players, watch=False)
    assert load_policy(name, None).rules.num_players == (players or 2) or name == "bot:convention"
    assert (name == "bot:convention") == (players in (4, 5))


def test_several_agents_must_fill_the_seats():
    assert _line_up(["bot:simple", "bot:smart"], 3, watch=False) == ["bot:simple", "bot:smart"]
    with pytest.raises(ValueError, match="expected 1 or 3 agents for 4 players, got 2"):
        _line_up(["bot:simple", "bot:smart"], 4, watch=False)
