"""`hanabi-rl study report`: results of a study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hanabi_rl.cli.agents import File, Flag
from hanabi_rl.cli.output import Parts, Plot, measure_command
from hanabi_rl.storage.words import count

if TYPE_CHECKING:
    from hanabi_rl.evaluation.measure.study_games import PlayFigures
    from hanabi_rl.people.study.export import Export


@measure_command
def report(
    source: File,
    gauntlet: Path | None = None,
    br_prox: Path | None = None,
    answers_only: Flag = False,
    plot: Plot = None,
) -> Parts:
    """Print the results of a study with human participants.

    The tables have scores, ratings and rankings by agent, comparisons of agents within
    participants, the regression of ratings on scores, and metrics of the agents' moves. Agents of
    different kitchens are not compared.

    Args:
        source: folder of a study, or games.safetensors of `hanabi-rl games export` with the files
            next to it.
        gauntlet: output of `hanabi-rl gauntlet --json` for the study's agents.
        br_prox: output of `hanabi-rl br-prox --json` for the study's agents.
        answers_only: report only scores and answers, without metrics of moves.
    """
    from hanabi_rl.evaluation.measure.study_summary import report_of
    from hanabi_rl.evaluation.reporting.study import plot_report, report_dict, report_parts
    from hanabi_rl.people.study.export import person_agent_data

    export = _read(source)
    hashes = {line["agent"]: line["policy_hash"] for line in export.lines}
    study = export.study
    games = {} if study.is_hanabi else {of.label: study.game_of(of) for of in study.agents}
    if len(set(games.values())) > 1 and (gauntlet or br_prox):
        raise ValueError("--gauntlet, --br-prox: expected a study of one kitchen, got several")
    others: dict[str, dict[str, float]] = {}
    if gauntlet is not None:
        others |= _of_study(gauntlet, _read_output(gauntlet, "gauntlet", _gauntlet_figures), hashes)
    if br_prox is not None:
        others |= _of_study(br_prox, _read_output(br_prox, "br-prox", _br_prox_figures), hashes)
    agents = [agent.label for agent in study.agents]
    played = [] if answers_only else _played(export)
    others |= metrics_of(played) if study.is_hanabi else {}
    found = report_of(person_agent_data(export), agents, others, export.max_score, games)
    yield f"{export.study.title}: {_people_text(export)}\n"
    yield from report_parts(found, played)
    if plot is not None:
        plot_report(found, plot, export.study.title, export.max_score)
    about = {"source": source, "title": export.study.title, "people": _people(export)}
    yield about | report_dict(found, played)


def _read(source: Path) -> Export:
    """Read the folder of a study or its exported files."""
    from hanabi_rl.people.study.export import gather, read_export
    from hanabi_rl.people.study.folder import StudyFolder, read_study_of

    if source.is_file():
        return read_export(source)
    if not (source / "study.json").is_file():
        raise ValueError(
            f"expected the folder of a study or exported games, got {source} without study.json"
        )
    return gather(StudyFolder(source, read_study_of(source)), unfinished=True)


def _people(export: Export) -> dict[str, int]:
    """Number of participants that agreed, played, stopped early, and failed the screening."""
    people = export.people
    return {
        "agreed": len(people),
        "played": len({line["participant"] for _, line in export.by_person()}),
        "stopped": sum(person["stopped"] for person in people),
        "screened": sum(not person["may_play"] for person in people),
    }


def _people_text(export: Export) -> str:
    people = _people(export)
    text = f"{count(people['agreed'], 'person', 'people')} agreed, {people['played']} played"
    text += f", {people['stopped']} stopped early" if people["stopped"] else ""
    if people["screened"]:
        text += f", {people['screened']} failed the screening"
    if replaced := sum(line["instead"] for line in export.lines):
        text += f"; not counted: {count(replaced, 'game')} with an agent in place of a participant"
    return text


def _played(export: Export) -> list[PlayFigures]:
    """Metrics of the agents' moves in finished games that count."""
    from hanabi_rl.data.games import Games
    from hanabi_rl.evaluation.measure.study_games import play_figures
    from hanabi_rl.evaluation.overcooked.study import kitchen_figures
    from hanabi_rl.people.study.export import counted_lines

    tables = {
        row: table
        for row, table in counted_lines(export).items()
        if export.lines[row]["end_reason"] == "finished"
    }
    if not tables:
        return []
    agents = [table[0]["agent"] for table in tables.values()]
    people = [[line["participant"] for line in table] for table in tables.values()]
    if not isinstance(export.games, Games):
        return kitchen_figures(export.games.select(list(tables)), agents, [of for (of,) in people])
    marks = [[turn for line in table for turn in line["questioned"]] for table in tables.values()]
    return play_figures(export.games.select(list(tables)), agents, people, marks)


def metrics_of(played: Sequence[PlayFigures]) -> dict[str, dict[str, float]]:
    """Objective metric -> agent -> value, to rank agents; empty for too few agents."""
    from hanabi_rl.evaluation.measure.study_games import OF_AGENT
    from hanabi_rl.evaluation.measure.study_statistics import ENOUGH_AGENTS

    if len(played) < ENOUGH_AGENTS:
        return {}
    return {
        measure.label: {
            of.agent: figure.interval.mean
            for of in played
            if (figure := of.measures[measure.name]).interval is not None
        }
        for measure in OF_AGENT
    }


def _gauntlet_figures(output: Any) -> dict[str, dict[str, float]]:
    """Score -> identity of an agent -> value."""
    found: dict[str, dict[str, float]] = {"gauntlet, mean": {}, "gauntlet, worst": {}}
    for agent in output["agents"]:
        if summary := agent["family_summary"].get("all"):
            for name in ("mean", "worst"):
                found[f"gauntlet, {name}"][agent["self_play"]["policy_hash"]] = summary[name]
    return found


def _br_prox_figures(output: Any) -> dict[str, dict[str, float]]:
    methods = output["scores"]["methods"]
    return {
        "BR-Prox": {
            agent["policy_hash"]: methods[agent["method"]]["all"]["iqm"]
            for agent in output["agents"]
        }
    }


def _read_output(
    path: Path, command: str, figures: Callable[[Any], dict[str, dict[str, float]]]
) -> dict[str, dict[str, float]]:
    """`figures` of a command's --json output in `path`; raises ValueError for other content."""
    from hanabi_rl.storage.files import read_json

    output: Any = read_json(path)
    try:
        return figures(output)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(
            f"--{command} {path}: expected the output of `hanabi-rl {command} --json`, got other "
            f"content ({type(error).__name__}: {error})"
        ) from error


def _of_study(
    path: Path, figures: dict[str, dict[str, float]], hashes: dict[str, str]
) -> dict[str, dict[str, float]]:
    """Score -> agent of the study -> value. Agents are matched by hash, not by name."""
    found = {
        name: {agent: of[identity] for agent, identity in hashes.items() if identity in of}
        for name, of in figures.items()
    }
    if not any(found.values()):
        raise ValueError(
            f"{path}: expected an agent of the study, got none: {', '.join(hashes)} have different "
            "hashes"
        )
    return found
