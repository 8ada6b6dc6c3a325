"""Who thinks for a bot, and what is kept of its games: `AgentWorker`.

One runner for each number of players (`people/serve/runner.py`), asked with what came together
while the last answers were made. What an agent learnt of partners, where it learns anything and
`--remember` is given, is handed to it again when it meets the same ones around the table.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.policy import Policy, next_game
from hanabi_rl.people.live.effects import Forget, GameEnded, RequestMove
from hanabi_rl.people.live.partner_memory import PartnerMemory
from hanabi_rl.people.serve.batcher import AsyncBatcher
from hanabi_rl.people.serve.folder import GameFolder
from hanabi_rl.people.serve.partner_protocol import PartnerAction
from hanabi_rl.people.serve.runner import PartnerRunner
from hanabi_rl.people.serve.ticks import Run, compiled

_Request = RequestMove | GameEnded | Forget
_Result = PartnerAction | Exception | None


class AgentWorker:
    """`policies` by the number of players; games of each in `slots` slots. `folder` keeps games,
    `partner_memory` what the agent learnt of people (None: nothing does)."""

    def __init__(
        self,
        policies: Mapping[int, Policy],
        slots: int,
        folder: GameFolder | None,
        partner_memory: PartnerMemory | None,
        run: Run = compiled,
    ) -> None:
        self._policies, self._folder, self._partner_memory = policies, folder, partner_memory
        self._runners = {
            players: PartnerRunner([policy], policy.rules, slots, run=run)
            for players, policy in policies.items()
        }
        self._batcher = AsyncBatcher[_Request, PartnerAction | None](self._process_batch)

    async def query(self, request: RequestMove) -> PartnerAction:
        """See `AgentBackend`."""
        answer = await self._batcher.ask(request)
        assert answer is not None
        return answer

    async def on_game_ended(self, ended: GameEnded) -> None:
        """See `AgentBackend`."""
        if ended.game is not None and self._folder is not None:
            self._folder.finish(ended.game)
        if ended.observed is not None and self._partner_memory is not None:
            await self._batcher.ask(ended)

    async def forget(self, forget: Forget) -> None:
        """See `AgentBackend`."""
        if self._partner_memory is not None:
            await self._batcher.ask(forget)

    async def _process_batch(self, requests: list[_Request]) -> Sequence[_Result]:
        return await asyncio.to_thread(self._process, requests)

    def _process(self, requests: Sequence[_Request]) -> list[_Result]:
        """What is wrong with one is told to it alone; those of one number of players go together,
        and what was played before a game ended is thought of before it is learnt from. What is
        learnt and forgotten keeps its order."""
        found: list[_Result] = [None] * len(requests)
        for players, runner in self._runners.items():
            indices = [
                i
                for i, request in enumerate(requests)
                if isinstance(request, RequestMove) and request.game.rules.num_players == players
            ]
            for i, answer in zip(
                indices, self._actions(runner, [requests[i] for i in indices]), strict=True
            ):
                found[i] = answer
        for i, request in enumerate(requests):
            try:
                if isinstance(request, GameEnded):
                    self._learn(request)
                elif isinstance(request, Forget):
                    self._forget(request)
            except Exception as error:
                found[i] = error
        return found

    def _forget(self, forget: Forget) -> None:
        """Also in games that go on: they are played again without what is deleted."""
        if self._partner_memory is not None:
            self._partner_memory.forget(forget.player)
        for runner in self._runners.values():
            runner.forget()

    def _actions(
        self, runner: PartnerRunner, requests: Sequence[Any]
    ) -> list[PartnerAction | Exception]:
        if not requests:
            return []
        try:
            games = [request.game for request in requests]
            memories = [self._read_memory(r.game.rules.num_players, r.partners) for r in requests]
            return list(runner.partner_action(games, initial_memories=memories))
        except Exception as error:
            if len(requests) == 1:
                return [error]
            return [self._actions(runner, [request])[0] for request in requests]

    def _read_memory(self, players: int, partners: Sequence[str]) -> Any:
        """The agent's memory before a game with these partners; None: they are strangers."""
        if self._partner_memory is None:
            return None
        policy = self._policies[players]
        memory = self._partner_memory.read(policy.identity(), partners, policy.init_carry(1))
        return None if memory is None else jax.tree.map(lambda leaf: leaf[0], memory)

    def _learn(self, ended: GameEnded) -> None:
        game, partner_memory = ended.observed, self._partner_memory
        if game is None or partner_memory is None:
            return
        players = game.rules.num_players
        runner, policy = self._runners[players], self._policies[players]
        runner.partner_action([game], initial_memories=[self._read_memory(players, ended.partners)])
        memory = jax.tree.map(lambda leaf: np.asarray(leaf)[None], runner.memory(game.game_id))
        after = next_game(policy, memory, jnp.ones(1, bool))
        partner_memory.write(policy.identity(), ended.partners, after)
