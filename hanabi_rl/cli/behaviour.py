"""`hanabi-rl behaviour`: behavioural metrics of an agent in self-play, or of recorded games."""

from __future__ import annotations

from hanabi_rl.cli.agents import AgentOrFile, DeckSeed, Players, Sample, games_of_source
from hanabi_rl.cli.output import Parts, measure_command
from hanabi_rl.storage.validation import BoundedCount


@measure_command
def behaviour(
    source: AgentOrFile,
    players: Players = None,
    games: BoundedCount = 1000,
    seed: DeckSeed = 0,
    sample: Sample = False,
) -> Parts:
    """Print information per play and communicativeness, with the figures of AH2AC2's Table 10.

    Args:
        source: any agent (`hanabi-rl agents` lists them), which plays with copies of itself; or a
            file of games (.safetensors, .json or .jsonl), of which the human seats count.
        games: number of games of an agent.
    """
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
    from hanabi_rl.evaluation.measure.registry import behaviour_figures
    from hanabi_rl.evaluation.reporting.measures import behaviour_parts

    played, title, about = games_of_source(source, players, games, seed, sample)
    figures = behaviour_figures(GameAnalysis(played))
    yield title
    yield from behaviour_parts(figures, played.rules)
    yield about | {"players": played.rules.num_players} | figures
