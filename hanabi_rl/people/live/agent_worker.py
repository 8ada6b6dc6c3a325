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


class AgentWorker:
    """`policies` by the number of players; games of each in `slots` slots. `folder` keeps games,
    `acquaintances` what the agent learnt of people (None: nothing does)."""

    def __init__(
        self,
        policies: Mapping[int, Policy],
        slots: int,
        folder: GameFolder | None,
        acquaintances: PartnerMemory | None,
        run: Run = compiled,
    ) -> None:
        self._policies, self._folder, self._acquaintances = policies, folder, acquaintances
        self._runners = {
            players: PartnerRunner([policy], policy.rules, slots, run=run)
            for players, policy in policies.items()
        }
        self._asked = AsyncBatcher[RequestMove | GameEnded | Forget, PartnerAction | None](
            self._think_together
        )

    async def think(self, asked: RequestMove) -> PartnerAction:
        """See `connection.Agents`."""
        answer = await self._asked.ask(asked)
        assert answer is not None
        return answer

    async def ended(self, ended: GameEnded) -> None:
        """See `connection.Agents`."""
        if ended.game is not None and self._folder is not None:
            self._folder.finish(ended.game)
        if ended.seen is not None and self._acquaintances is not None:
            await self._asked.ask(ended)

    async def forget(self, forget: Forget) -> None:
        """See `connection.Agents`."""
        if self._acquaintances is not None:
            await self._asked.ask(forget)

    async def _think_together(
        self, asked: list[RequestMove | GameEnded | Forget]
    ) -> Sequence[PartnerAction | Exception | None]:
        return await asyncio.to_thread(self._each, asked)

    def _each(
        self, asked: Sequence[RequestMove | GameEnded | Forget]
    ) -> list[PartnerAction | Exception | None]:
        """What is wrong with one is told to it alone; those of one number of players go together,
        and what was played before a game ended is thought of before it is learnt from. What is
        learnt and forgotten keeps its order."""
        found: list[PartnerAction | Exception | None] = [None] * len(asked)
        for players, runner in self._runners.items():
            here = [
                i
                for i, one in enumerate(asked)
                if isinstance(one, RequestMove) and one.game.rules.num_players == players
            ]
            for i, answer in zip(
                here, self._answers(runner, [asked[i] for i in here]), strict=True
            ):
                found[i] = answer
        for i, one in enumerate(asked):
            try:
                if isinstance(one, GameEnded):
                    self._learn(one)
                elif isinstance(one, Forget):
                    self._forget(one)
            except Exception as error:
                found[i] = error
        return found

    def _forget(self, forget: Forget) -> None:
        """Also in games that go on: they are played again without what is deleted."""
        if self._acquaintances is not None:
            self._acquaintances.forget(forget.player)
        for runner in self._runners.values():
            runner.forget()

    def _answers(
        self, runner: PartnerRunner, asked: Sequence[Any]
    ) -> list[PartnerAction | Exception]:
        if not asked:
            return []
        try:
            given = [self._known(one.game.rules.num_players, one.partners) for one in asked]
            return list(runner.partner_action([one.game for one in asked], initial_memories=given))
        except Exception as error:
            if len(asked) == 1:
                return [error]
            return [self._answers(runner, [one])[0] for one in asked]

    def _known(self, players: int, partners: Sequence[str]) -> Any:
        """The agent's memory before a game with these partners; None: they are strangers."""
        if self._acquaintances is None:
            return None
        policy = self._policies[players]
        known = self._acquaintances.read(policy.identity(), partners, policy.init_carry(1))
        return None if known is None else jax.tree.map(lambda leaf: leaf[0], known)

    def _learn(self, ended: GameEnded) -> None:
        game, acquaintances = ended.seen, self._acquaintances
        if game is None or acquaintances is None:
            return
        players = game.rules.num_players
        runner, policy = self._runners[players], self._policies[players]
        runner.partner_action([game], initial_memories=[self._known(players, ended.partners)])
        memory = jax.tree.map(lambda leaf: np.asarray(leaf)[None], runner.memory(game.game_id))
        after = next_game(policy, memory, jnp.ones(1, bool))
        acquaintances.write(policy.identity(), ended.partners, after)
