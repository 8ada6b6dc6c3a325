"""`hanabi-rl study` and `games`: run a study with human participants, export and delete games."""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from hanabi_rl.cli.agents import File, Flag, load_hanabi_agents
from hanabi_rl.cli.play import check_extra, exit_compiling, listen, progress
from hanabi_rl.cli.serve import check_tls
from hanabi_rl.people.serve.request_limits import NetworkLimits
from hanabi_rl.storage.files import check_readable
from hanabi_rl.storage.validation import BoundedCount, Port, Seconds
from hanabi_rl.storage.words import count

if TYPE_CHECKING:
    from hanabi_rl.people.serve.partner_protocol import LazyPartners
    from hanabi_rl.people.study.folder import StudyFolder
    from hanabi_rl.people.study.play import ParticipantGames


def study(
    file: File,
    state: Path | None = None,
    host: str = "127.0.0.1",
    port: Port = 8644,
    move_delay: Seconds = 0.8,
    slots: BoundedCount = 16,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    limits: NetworkLimits = NetworkLimits(),  # noqa: B008 (frozen)
) -> None:
    """Run a study: participants consent, play with each agent and answer questions.

    Args:
        file: TOML file with agents and questions; bundled: `casual`, `example`, `kitchen`, `siu`.
        state: folder for all data of the study; default: studies/NAME.
        host: address to listen on; 0.0.0.0: all addresses.
        port: port to listen on; 0: any free port.
        move_delay: seconds before a partner's move appears in Hanabi.
        slots: simultaneous games of Hanabi per agent in memory; further games take turns.
        tls_cert: TLS certificate, with --tls-key; without it, use a TLS proxy.
        tls_key: key of --tls-cert.
        limits: limits per network address.
    """
    check_extra()
    check_tls(tls_cert, tls_key)
    import uvicorn

    from hanabi_rl.people.serve.request_timeouts import GuardedConfig
    from hanabi_rl.people.serve.web import MAX_MESSAGE
    from hanabi_rl.people.study.design import read_study
    from hanabi_rl.people.study.folder import StudyFolder
    from hanabi_rl.people.study.pages import make_study
    from hanabi_rl.runs.run_dir import lock_run_dir

    file = _bundled(file) or file
    bundled = ", ".join(sorted(path.stem for path in _studies().glob("*.toml")))
    check_readable("FILE", file, f"a study's TOML file, or one of {bundled}")
    design, path = read_study(file), state or Path("studies") / file.stem
    path.mkdir(parents=True, exist_ok=True)
    # not `.lock`, which `hanabi-rl games` takes while the server runs
    with lock_run_dir(path, "server", "--state", ".server"):
        folder = StudyFolder(path, design, change=True)
        listening = listen(host, port)
        play, partners = _tables(folder, slots)
        scheme = "http" if tls_cert is None else "https"
        print(
            f"The study is at {scheme}://{host}:{listening.getsockname()[1]}/ (Ctrl-C stops; "
            f"everything is in {path})",
            flush=True,
        )
        config = GuardedConfig(
            lambda limiter: make_study(
                play, move_delay, limiter, at_end=lambda: [each.give_up() for each in partners]
            ),
            limits,
            log_level="warning",
            access_log=False,  # network addresses are personal data
            h11_max_incomplete_event_size=limits.head_bytes,
            ws_max_size=MAX_MESSAGE,
            timeout_graceful_shutdown=2,
            ssl_certfile=tls_cert,
            ssl_keyfile=tls_key,
        )
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])
    exit_compiling(*partners)


def export_games(study: Path, out: Path, unfinished: Flag = False) -> None:
    """Export the games and answers of a study.

    Args:
        study: folder of the study.
        out: file for the games (.safetensors, in Hanabi AH2AC2's format, which `data convert`
            converts); answers go to .jsonl files next to it.
        unfinished: include games that were abandoned or are in progress.
    """
    from hanabi_rl.people.study.export import export_study

    exported = export_study(_folder(study), out, unfinished=unfinished)
    print(
        f"{count(exported, 'game')}: {out}, {out.with_suffix('.jsonl')} (and .participants.jsonl)"
    )


def list_games(study: Path) -> None:
    """List the participants of a study and their progress.

    Args:
        study: folder of the study.
    """
    from hanabi_rl.people.study.participant import next_step

    folder = _folder(study)
    people = folder.participants()
    for person in people:
        done = [each.game for each in person.games if each.game.end_reason == "finished"]
        step = next_step(folder.study, person)
        playing = step.kind in ("play", "after")
        where = f"{step.kind} game {step.place + 1}" if playing else step.name
        scores = ", ".join(str(game.score) for game in done) or "none"
        print(
            f"{person.number:06d}  next: {where}; {len(done)} of {count(len(person.plan), 'game')} "
            f"finished, scores {scores}"
        )
    print(f"{len(people)} of {count(folder.study.participants, 'participant')}")


def withdraw(participant: tyro.conf.Positional[int], study: Path) -> None:
    """Delete all data of a participant except one line in audit.jsonl.

    Args:
        participant: number of the participant, the first six digits of the participant's code.
        study: folder of the study.
    """
    if not _folder(study).withdraw(participant, "the operator"):
        raise ValueError(f"expected a participant of {study}, got {participant:06d}")
    print(f"{participant:06d} is deleted; delete earlier exports yourself")


GAME_COMMANDS = {"list": list_games, "export": export_games, "withdraw": withdraw}


def _folder(path: Path) -> StudyFolder:
    from hanabi_rl.people.study.folder import StudyFolder, read_study_of

    if not (path / "study.json").is_file():
        raise ValueError(f"expected the folder of a study, got {path} without study.json")
    return StudyFolder(path, read_study_of(path))


def _bundled(file: Path) -> Path | None:
    """Path of the bundled study with this name; None if `file` is a path."""
    path = _studies() / f"{file}.toml"
    return path if not file.exists() and path.is_file() else None


def _studies() -> Path:
    from hanabi_rl.launch.presets import configs_folder

    return configs_folder() / "study"


def _tables(folder: StudyFolder, slots: int) -> tuple[ParticipantGames, list[LazyPartners]]:
    from hanabi_rl.agents.preloaded_profile import has_profile
    from hanabi_rl.people.serve.partner_protocol import LazyPartners, Partners
    from hanabi_rl.people.serve.runner import PartnerRunner
    from hanabi_rl.people.study.play import StudyPlay

    names, players = folder.study.policies, folder.study.players
    if not folder.study.is_hanabi:
        from hanabi_rl.people.study.kitchens import KitchenStudy, load_kitchen_agents

        with progress(f"loading {', '.join(names)}"):
            return KitchenStudy(folder, load_kitchen_agents(folder.study)), []
    with progress(f"loading {', '.join(names)}"):
        policies = dict(zip(names, load_hanabi_agents(names, players), strict=True))
    rules = policies[names[0]].rules

    def compiled(name: str) -> Partners:
        with progress(f"compiling {name}"):
            return PartnerRunner([policies[name]] * (players - 1), rules, slots)

    identities = {name: policy.identity() for name, policy in policies.items()}
    remembering = [name for name, policy in policies.items() if has_profile(policy)]
    partners: dict[str, LazyPartners] = {}
    play = StudyPlay(folder, rules, partners, identities, remembering)
    # in the background, while participants read and answer the first pages
    partners |= {name: LazyPartners(functools.partial(compiled, name)) for name in names}
    return play, list(partners.values())
