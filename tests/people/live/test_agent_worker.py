"""Deletion of an agent's memory of a person."""

import asyncio

import numpy as np
import pytest

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.live.agent_worker import AgentWorker
from hanabi_rl.people.live.effects import DecisionToken, Forget, GameEnded, RequestMove
from hanabi_rl.people.live.partner_memory import PartnerMemory
from hanabi_rl.people.serve.lifecycle import Game
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games

RULES = Rules(num_players=2)


@pytest.mark.slow
def test_memory_forgotten_mid_game_does_not_return(tmp_path):
    """The deletion and the end of the game are in the same batch."""
    agent, bot = load_policy("agent:adhoc-2p", RULES), load_policy("bot:iggi", RULES)
    games = play_games((bot, bot), RULES, evaluation_decks(RULES, 2, 5, "people"), 0)
    partner_memory = PartnerMemory(tmp_path)
    thinking = AgentWorker({2: agent}, 4, None, partner_memory)

    def game(k, turns=None):
        deck, moves = tuple(games.decks[k].tolist()), tuple(games.moves(k).tolist())
        return Game(100 + k, RULES, deck, frozenset({1}), moves[:turns])

    def turns_of_zoe():
        memory = partner_memory.read(agent.identity(), ("Zoe",), agent.init_carry(1))
        return None if memory is None else int(np.asarray(memory.profile.counts)[0, 1, 0])

    def end(k):
        return thinking.on_game_ended(GameEnded(None, game(k), ("Zoe",)))

    async def second_game(forget_at):
        await end(0)
        first = turns_of_zoe()
        if forget_at == "before":
            await thinking.forget(Forget("Zoe"))
            assert turns_of_zoe() is None
        await thinking.query(RequestMove(DecisionToken(1, 1), game(1, 10), 0.0, ("Zoe",)))
        if forget_at == "during":
            await thinking.forget(Forget("Zoe"))
            assert list(tmp_path.iterdir()) == []
            await end(1)
        elif forget_at == "as it ends":
            other = thinking.query(RequestMove(DecisionToken(1, 2), game(1, 12), 0.0, ("Zoe",)))
            await asyncio.gather(other, thinking.forget(Forget("Zoe")), end(1))
        else:
            await end(1)
        second = turns_of_zoe()
        await thinking.forget(Forget("Zoe"))
        return first, second

    first, both = asyncio.run(second_game("never"))
    _, alone = asyncio.run(second_game("before"))
    assert both == first + alone
    assert asyncio.run(second_game("during")) == (first, alone)
    assert asyncio.run(second_game("as it ends")) == (first, alone)
