"""Runs a bot's agents and saves its games: `AgentWorker`.

There is one runner per number of players (`people/serve/runner.py`); requests that arrive during a
batch form the next batch. With `--remember`, an agent that adapts to partners receives its saved
memory again in games with the same partners in the same order.
"""

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
    """Agent backend. `policies`: by number of players, each with `slots` game slots. `folder` saves
    games, `partner_memory` what the agent learned about its partners (None: not saved)."""

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
        action = await self._batcher.ask(request)
        assert action is not None
        return action

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
        """Process a batch: moves first, batched by number of players, then memory updates and
        deletions in order. A request that fails gets its own exception."""
        results: list[_Result] = [None] * len(requests)
        for players, runner in self._runners.items():
            indices = [
                i
                for i, request in enumerate(requests)
                if isinstance(request, RequestMove) and request.game.rules.num_players == players
            ]
            for i, result in zip(
                indices, self._actions(runner, [requests[i] for i in indices]), strict=True
            ):
                results[i] = result
        for i, request in enumerate(requests):
            try:
                if isinstance(request, GameEnded):
                    self._learn(request)
                elif isinstance(request, Forget):
                    self._forget(request)
            except Exception as error:
                results[i] = error
        return results

    def _forget(self, forget: Forget) -> None:
        """Delete memory of a player; games in progress are replayed without it."""
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
        """Return the agent's saved memory of these partners; None at a first meeting."""
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
