"""`hanabi-rl challenge`: AH2AC2's data-limited challenge with any partner."""

from __future__ import annotations

import sys
from pathlib import Path

from hanabi_rl.cli.agents import Flag
from hanabi_rl.cli.output import Parts, measure_command
from hanabi_rl.storage.validation import BoundedCount, PositiveInt, Seed, UnitInterval


@measure_command
def challenge(
    partner: str = "convention",
    games: BoundedCount = 1000,
    players: int = 2,
    methods: tuple[str, ...] = (),
    features: str = "facts",
    total_steps: PositiveInt = 800_000,
    kl_weight: UnitInterval = 0.1,
    heldout_games: BoundedCount = 200,
    eval_games: BoundedCount = 1000,
    seed: Seed = 0,
    proxies: tuple[str, ...] = (),
    agents: tuple[str, ...] = (),
    pretrain: Flag = False,
    out: Path | None = None,
) -> Parts:
    """Run AH2AC2's data-limited challenge with any agent in place of the human players.

    The command generates games of the partner, trains each method on them within a budget of steps,
    and evaluates each method with the proxies. The same command continues a stopped run; other
    methods add rows.

    Args:
        partner: agent that generates the games; A+B: both, in alternating seats. An agent that
            searches with partner_model=C+D must come last.
        games: number of training games.
        players: number of players, 2 to 5.
        methods: any of bc, hdr_ippo, br_bc, ippo; default: all.
        features: feature set of the networks: facts, hint-history, conventions or hint-outcomes.
        total_steps: environment steps per method that learns by playing.
        kl_weight: KL weight of HDR-IPPO.
        heldout_games: number of games for action prediction.
        eval_games: games per method with the proxies, one per deck, spread over the lineups.
        seed: seed of the games, the training runs and the evaluation decks.
        proxies: evaluation partners; default: the partner (for A+B, both).
        agents: additional agents to evaluate, such as obl:FILE or a run of Other-Play.
        pretrain: start the clone from a clone of other bots and agents (preset `pretrain` of
            train/bc.py), without the partner's family. It is trained once, in the parent folder of
            --out.
        out: folder of the runs and challenge.json; default:
            runs/challenge-PARTNER-PLAYERSp-FEATURES-GAMES[-pretrain]-sSEED.
    """
    from hanabi_rl.launch.data_challenge import METHODS, Challenge, challenge_table, run_challenge
    from hanabi_rl.play.demos import file_stem
    from hanabi_rl.runs.session import RunStopped

    name = partner.removeprefix("bot:")
    chosen = Challenge(
        name, games, heldout_games, players, methods or METHODS,
        features,  # type: ignore[arg-type]  # checked by the network config
        total_steps, kl_weight, eval_games, seed, proxies, agents, pretrain,
    )  # fmt: skip
    size = f"{games}-pretrain" if pretrain else f"{games}"
    stem = f"challenge-{file_stem(name)}-{players}p-{features}-{size}-s{seed}"
    folder = out or Path("runs") / stem
    try:
        record = run_challenge(chosen, folder)
    except RunStopped as stopped:
        print(f"Stopped in {folder}; repeat the command to continue.", file=sys.stderr)
        sys.exit(stopped.exit_code)
    yield challenge_table(record)
    print(f"Results: {folder}", file=sys.stderr)
    yield record
