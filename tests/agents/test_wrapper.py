"""What holds of every wrapper of an agent."""

import itertools

import jax
import jax.numpy as jnp

from hanabi_rl.agents.bots.registry import make_bot
from hanabi_rl.agents.knowing import Knowing
from hanabi_rl.agents.noisy import Noisy
from hanabi_rl.agents.renamed import Renamed
from hanabi_rl.agents.safe import Safe
from hanabi_rl.agents.search.searched import Searched
from hanabi_rl.agents.search.settings import Settings
from hanabi_rl.agents.tempered import Tempered
from hanabi_rl.env.game import Rules


def test_no_two_wrappers_are_one_structure_to_jit() -> None:
    """See `own_structure`: at one number, a temperature and a chance of a random move were."""
    bot = make_bot("simple", Rules())
    wrapped = [
        Noisy(bot, epsilon=0.5),
        Tempered(bot, temperature=0.5),
        Safe(bot, last_life=0.5, before=0.5),
        Renamed(bot, colors=jnp.arange(5)),
        Searched(bot),
        Knowing(bot, counts=jnp.arange(5)),
    ]
    for one, other in itertools.combinations(wrapped, 2):
        assert jax.tree.structure(one) != jax.tree.structure(other), (one, other)
    again = Tempered(bot, temperature=0.5)
    assert jax.tree.structure(again) == jax.tree.structure(wrapped[1])
    assert all(each.rules == bot.rules for each in wrapped)


def test_every_setting_of_a_wrapper_is_part_of_who_it_is() -> None:
    bots = [make_bot(name, Rules()) for name in ("simple", "random")]
    wrapped = [
        wrapper
        for bot in bots
        for wrapper in (
            bot,
            *(Noisy(bot, epsilon=x) for x in (0.25, 0.5)),
            *(Tempered(bot, temperature=x) for x in (0.25, 0.5)),
            *(Safe(bot, last_life=x, before=y) for x in (0.25, 0.5) for y in (0.25, 0.5)),
            *(Searched(bot, settings=Settings(lam=x)) for x in (0.25, 0.5)),
            Searched(bot, models=(Tempered(bot, temperature=2.0),)),
            *(Renamed(bot, colors=jnp.array(x)) for x in ([0, 1, 2, 3, 4], [1, 0, 2, 3, 4])),
            *(Knowing(bot, counts=jnp.array(x)) for x in ([0, 1, 2, 3, 4], [1, 0, 2, 3, 4])),
        )
    ]
    assert len({each.identity() for each in wrapped}) == len(wrapped) == 32
