"""Best responses: PPO learns, from nothing or from an agent, to play with given partners, which
never change.

With one partner it is that partner's approximate best response, the denominator of BR-Prox
(ZSC-Eval, Wang et al. 2024, section 3.1). With checkpoints of several self-play runs, each kept at
its beginning, half-way and end, it is the second stage of Fictitious Co-Play (FCP, Strouse et al.
2021); with clones of several data sets, a best response to a population of human models.
"""

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp

from hanabi_rl.agents.names import BOT, load_policy, parse_name, spread_names
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.algorithms.ippo import IPPOConfig
from hanabi_rl.algorithms.lineups import (
    WITH_ALL,
    WithPartners,
    draw_lineup,
    load_population,
    own_share,
    partner_metrics,
    with_rematches,
)
from hanabi_rl.algorithms.loop import PPOAlgorithm, Training
from hanabi_rl.algorithms.start_from import first_params
from hanabi_rl.env.game import Rules
from hanabi_rl.learning import parallel
from hanabi_rl.learning.partners import Population, stack_policies
from hanabi_rl.learning.population import PopulationPPO, Unseen
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.measure.crossplay import evaluate_beside
from hanabi_rl.measure.selfplay import evaluate_selfplay, summarise
from hanabi_rl.runs.config import with_game
from hanabi_rl.show.report import link_lines, score_figures, score_table
from hanabi_rl.storage.ranges import Share, Weight


@dataclasses.dataclass(frozen=True)
class BestResponseConfig(WithPartners, IPPOConfig):
    """Train a best response to given partners, from nothing or from an agent."""

    start_from: str | None = None
    """An agent whose play the response begins as: with the same network, or a structured one of
    the same widths that is shown less. None: from nothing."""
    partner_share: Share = 1.0
    """The chance that a partner holds a seat beside the learner's, all through training."""
    rematch: Share = 0.0
    """The chance that a game is followed by another one with the same partners, the seats rotated:
    what a network with a profile knows of them stays."""
    priority: Weight = 0.0
    """Of several partners: 0 meets all of them alike; above, those with whom it scores less more
    often, by their rank to this power (MEP's rule; 0.5 to 1.5 in ZSC-Eval)."""
    unseen_return: Unseen = "lowest"
    """With --priority: the return of a partner with which no game has ended, the lowest or the mean
    of the others' returns (mean: ZSC-Eval's code)."""


def partner_rules(config: BestResponseConfig) -> Rules:
    """The game of the first partner that was trained; bots alone play the configured one.

    Raises:
        ValueError: no partner is given, or it cannot be read.
    """
    if not config.partners:
        raise ValueError("--partners: expected whom to play with, got nobody")

    def rules() -> Rules:
        trained = [name for name in config.partners if parse_name(name).source != BOT]
        return load_policy(trained[0]).rules if trained else config.game

    return parallel.on_first_host(rules)


class BestResponse(PPOAlgorithm):
    """The partners take their share of the seats; the best policy with them is kept."""

    config = BestResponseConfig
    title = "Best response"
    shown: ClassVar = {WITH_ALL: "with partners", "selfplay_mean": "self-play"}
    game = staticmethod(partner_rules)

    def run(self, config: BestResponseConfig) -> dict[str, Any]:
        """See `PPOAlgorithm`."""
        return super().run(with_game(config, partner_rules(config), "the partners"))

    def training(self, config: BestResponseConfig, clone: None) -> Training:
        """See `PPOAlgorithm`."""
        partners = load_population(spread_names(config.partners), config.game)
        lineups = with_rematches(
            draw_lineup(
                config.game.num_players,
                lambda timesteps: jnp.float32(config.partner_share),
                config.lineup,
            ),
            config.rematch,
        )
        own = own_share(config, config.partner_share, config.lineup)
        ppo = PPO(config, config.network, draw_episode=lineups, own_share=own)
        together = partners[0] if len(partners) == 1 else stack_policies(partners)
        if config.priority and isinstance(together, Population):
            if len(together.sizes) > 1:
                raise ValueError(
                    "--priority: expected partners of one kind (bots of one class, or networks), "
                    f"got {len(together.sizes)} kinds; leave it out to meet all alike"
                )
            ppo = PopulationPPO(
                config,
                config.network,
                draw_episode=lineups,
                own_share=own,
                lanes=len(partners),
                beta=config.priority,
                unseen=config.unseen_return,
            )
        start = config.start_from
        return Training(
            ppo,
            f"{self.title} to " + ", ".join(config.partners),
            begins_as=None if start is None else first_params(start, config.network, config.game),
            partners=together,
            evaluate=partner_metrics(partners),
            selected_by=WITH_ALL,
            shown="partner_seats",
        )

    def report(
        self, config: BestResponseConfig, policy: NetworkPolicy, clone: None
    ) -> dict[str, Any]:
        """Measures the policy beside each partner."""
        games, seed = config.report_games, config.seed
        played = evaluate_selfplay(policy, games, seed)
        names = list(dict.fromkeys(spread_names(config.partners)))
        partners = [load_policy(name, config.game) for name in names]
        scores, points = evaluate_beside(policy, partners, games, seed)
        beside = {
            name: summarise(scores[i], points[i], policy.rules.max_score)
            for i, name in enumerate(names)
        }
        rows = [(f"with {name}", summary) for name, summary in beside.items()]
        rows.append(("self-play", played.summary))
        print("\n".join(["", score_table(rows), *link_lines(played)]))
        means = [summary.mean.mean for summary in beside.values()]
        return {
            **score_figures({"selfplay": played.summary}),
            WITH_ALL: sum(means) / len(means),
            "with_partners": {
                name: {"mean": summary.mean.mean, "ci95": summary.mean.bounds}
                for name, summary in beside.items()
            },
            "links": played.links(),
        }


ALGORITHM = BestResponse()
