"""What thinks for a served challenge, without a process of its own."""

from __future__ import annotations

import threading

from hanabi_rl.agents.names import load_policy
from hanabi_rl.env.game import Rules
from hanabi_rl.serve.inference import Team
from hanabi_rl.serve.lifecycle import Game
from hanabi_rl.serve.partners import Answer
from hanabi_rl.serve.runner import Runner


class InProcess:
    """In the place of an `Inference`: one runner of one team, for all the servers of a test."""

    def __init__(self, team: Team, rules: Rules, slots: int) -> None:
        self.team = team
        agents = [load_policy(name, rules) for name in team]
        self._runner = Runner(agents, rules, slots, show=True)
        self._lock = threading.Lock()

    async def start(self) -> None:
        """It is there."""

    async def end(self) -> None:
        """It stays."""

    async def think(self, team: Team, game: Game) -> Answer:
        assert team == self.team
        with self._lock:
            return self._runner.think([game])[0]
