"""Agents in other processes at the seats of the server's and the browser's games."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hanabi_rl.agents.process import ProcessAgent
from hanabi_rl.games.hanabi.observation_decoder import ObservationDecoder
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.client import Rows
from hanabi_rl.people.serve.lifecycle import Game
from hanabi_rl.people.serve.partner_protocol import PartnerAction
from hanabi_rl.people.serve.player_view import player_view
from hanabi_rl.people.serve.policy_player import check_rows, seat_of


class ProcessPlayer:
    """A separate process for one connection, at all its seats; see `Player`."""

    def __init__(self, rules: Rules, command: str) -> None:
        self._rules, self._agent = rules, ProcessAgent(command)
        self._decoders: dict[str, ObservationDecoder] = {}
        self._game = 0

    def begin(self, info: Mapping[str, Any]) -> None:
        """See `Player.begin`."""
        self._game = int(info["game_id"])
        agents = info["candidate_controlling"]
        self._decoders = {
            agent: ObservationDecoder(self._rules, seat_of(agent)) for agent in agents
        }

    def act(self, rows: Rows) -> dict[str, int]:
        """See `Player.act`. Raises ValueError as `ProcessAgent.move`."""
        check_rows(self._rules, rows)
        actions = {}
        for agent, row in rows.items():
            decoder = self._decoders[agent]
            view = decoder.see(row["obs"])
            own = view.current_player == decoder.seat
            actions[agent] = self._agent.move(self._game, view) if own else self._rules.noop
        return actions

    def close(self) -> None:
        """See `Player.close`."""
        self._agent.close()


class ProcessPartners:
    """Local partners: a separate process for each seat; see `Partners`."""

    def __init__(self, rules: Rules, command: str) -> None:
        self._rules = rules
        self._agents = [ProcessAgent(command) for _ in range(rules.num_players)]

    def partner_action(self, games: Sequence[Game]) -> list[PartnerAction]:
        """See `Partners.partner_action`. Raises ValueError as `ProcessAgent.move`."""
        return [self._action(game) for game in games]

    def close(self) -> None:
        """End the processes."""
        for agent in self._agents:
            agent.close()

    def _action(self, game: Game) -> PartnerAction:
        seat = game.current_player
        assert seat is not None, "active games only"
        action = self._agents[seat].move(game.game_id, player_view(game, seat))
        probabilities = np.zeros(self._rules.num_actions, np.float32)
        probabilities[action] = 1.0
        return PartnerAction(action, probabilities)
