"""In-process inference for a served challenge."""

import threading
from collections.abc import Sequence

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.inference_process import AgentNames
from hanabi_rl.people.serve.lifecycle import Game
from hanabi_rl.people.serve.partner_protocol import PartnerAction
from hanabi_rl.people.serve.runner import PartnerRunner


class InProcess:
    """Replaces an `Inference` process: one runner of one team for all servers of a test."""

    def __init__(self, team: AgentNames, rules: Rules, slots: int) -> None:
        self.team = team
        agents = [load_policy(name, rules) for name in team]
        self._runner = PartnerRunner(agents, rules, slots, show=True)
        self._lock = threading.Lock()

    async def start(self) -> None:
        """Nothing to start."""

    async def end(self) -> None:
        """Nothing to end."""

    async def partner_action(self, team: AgentNames, game: Game) -> PartnerAction:
        assert team == self.team
        with self._lock:
            return self._runner.partner_action([game])[0]


class Everywhere(InProcess):
    """One agent in all non-candidate seats, for several numbers of players."""

    def __init__(self, agent: str, sizes: Sequence[int], slots: int) -> None:
        self._runners = {
            rules.num_players: PartnerRunner([load_policy(agent, rules)], rules, slots, show=True)
            for rules in (Rules(num_players=size) for size in sizes)
        }
        self._lock = threading.Lock()

    async def partner_action(self, team: AgentNames, game: Game) -> PartnerAction:
        with self._lock:
            runner = self._runners[game.rules.num_players]
            return runner.partner_action([game], [(0,) * len(team)])[0]
