"""Killed servers: no finished game is lost or leased twice, no deal or score changes.

The kills are those of `benchmarks/serve_kills.py`: 5 by default, 50 with HANABI_RL_INJECTIONS=full.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from support.games import ROOT

KILLS = 50 if os.environ.get("HANABI_RL_INJECTIONS") == "full" else 5


@pytest.mark.slow
@pytest.mark.parametrize("what", ["server", "inference"])
def test_kills_lose_and_repeat_nothing(what: str) -> None:
    done = subprocess.run(
        [
            *(sys.executable, ROOT / "benchmarks" / "serve_kills.py", "--json", "--what", what),
            *("--kills", str(KILLS), "--games", str(20 * KILLS)),
            *("--serve", "--proxies-2p", "bot:simple", "bot:value"),
        ],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    found = json.loads(done.stdout)
    assert found["kills"] == KILLS
    assert set(found["wrong"].values()) == {0}
    if what == "server":
        assert found["interrupted"] > 0 and found["connections_lost"] > 0
    else:
        assert found["interrupted"] == found["connections_lost"] == 0
        assert found["heard_to_the_end"] == 20 * KILLS
