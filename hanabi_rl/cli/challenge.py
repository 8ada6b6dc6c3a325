"""`hanabi-rl challenge`: AH2AC2's data-limited challenge with any partner."""

from __future__ import annotations

import json as json_format
import sys
from pathlib import Path

from hanabi_rl.cli.agents import Flag
from hanabi_rl.storage.validation import BoundedCount, PositiveInt, Seed, UnitInterval


def challenge(
    partner: str = "convention",
    games: BoundedCount = 1000,
    players: int = 2,
    methods: tuple[str, ...] = (),
    level: str = "facts",
    total_steps: PositiveInt = 800_000,
    kl_weight: UnitInterval = 0.1,
    held_out: BoundedCount = 200,
    decks: BoundedCount = 1000,
    seed: Seed = 0,
    proxies: tuple[str, ...] = (),
    agents: tuple[str, ...] = (),
    prior: Flag = False,
    out: Path | None = None,
    json: Flag = False,
) -> None:
    """Generate games of a partner, train each method on them within a budget, and play each with
    that partner: AH2AC2's challenge with any partner. The same command goes on where it stopped,
    and with other methods adds their rows.

    Args:
        partner: whose games: a bot, any agent, or A+B for tables where they take turns; one
            that searches with partner_model=C+D comes last.
        games: how many there are to learn from.
        players: 2 to 5.
        methods: some of bc, hdr_ippo, br_bc, ippo (default: all).
        level: what the networks are shown: facts, hint-history or conventions.
        total_steps: environment steps of each method that plays.
        kl_weight: of HDR-IPPO.
        held_out: games to predict.
        decks: games that each method plays with the proxies, one a deck, spread over the line-ups.
        seed: of the games, the runs and the decks: another seed draws all of them anew.
        proxies: whom the methods play with instead of the partner (of A+B: both), any agents.
        agents: any others to play beside the methods, such as obl:FILE or a run of Other-Play.
        prior: cloning begins with a clone of other bots and agents (the preset `pretrain` of
            train/bc.py), none of the partner's family; trained once, beside the folder `out`.
        out: where the runs and challenge.json go; default
            runs/challenge-PARTNER-PLAYERSp-LEVEL-GAMES[-prior]-sSEED.
        json: print one line of JSON on stdout and the table on stderr.
    """
    from hanabi_rl.launch.data_challenge import METHODS, Challenge, challenge_table, run_challenge
    from hanabi_rl.play.demos import file_stem
    from hanabi_rl.runs.session import RunStopped
    from hanabi_rl.storage.files import to_json

    name = partner.removeprefix("bot:")
    chosen = Challenge(
        name, games, held_out, players, methods or METHODS,
        level,  # type: ignore[arg-type]  # the network says what it expects
        total_steps, kl_weight, decks, seed, proxies, agents, prior,
    )  # fmt: skip
    told = f"{games}-prior" if prior else f"{games}"
    folder = out or Path("runs") / f"challenge-{file_stem(name)}-{players}p-{level}-{told}-s{seed}"
    try:
        record = run_challenge(chosen, folder)
    except RunStopped as stopped:
        print(f"Stopped in {folder}; the same command goes on.", file=sys.stderr)
        sys.exit(stopped.exit_code)
    print(challenge_table(record), file=sys.stderr if json else sys.stdout)
    print(f"Results: {folder}", file=sys.stderr)
    if json:
        print(json_format.dumps(to_json(record)))
