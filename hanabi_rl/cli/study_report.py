"""`hanabi-rl study report`: results of a study."""

from __future__ import annotations

from collections.abc import Sequence
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
    """Print the results of a study: scores, ratings and rankings by agent, agents compared within
    people, ratings regressed on scores, and metrics of the agents' moves.

    Args:
        source: folder of a study, or the output of `hanabi-rl games export` (games.safetensors,
            with the files next to it).
        gauntlet: output of `hanabi-rl gauntlet --json` for the study's agents.
        br_prox: output of `hanabi-rl br-prox --json` for the study's agents.
        answers_only: report scores and answers alone, without metrics of moves.
    """
    from hanabi_rl.evaluation.measure.study_summary import report_of
    from hanabi_rl.evaluation.reporting.study import report_dict, report_parts
    from hanabi_rl.evaluation.reporting.study_plot import plot_report
    from hanabi_rl.people.study.export import person_agent_data

    export = _read(source)
    hashes = {line["agent"]: line["policy_hash"] for line in export.lines}
    others: dict[str, dict[str, float]] = {}
    if gauntlet is not None:
        others |= _of_study(gauntlet, _gauntlet_figures(gauntlet), hashes)
    if br_prox is not None:
        others |= _of_study(br_prox, _br_prox_figures(br_prox), hashes)
    agents = [agent.name for agent in export.study.agents]
    played = [] if answers_only else _played(export)
    max_score = export.games.rules.max_score
    found = report_of(person_agent_data(export), agents, others | metrics_of(played), max_score)
    yield f"{export.study.title}: {_people_text(export)}\n"
    yield from report_parts(found, played)
    if plot is not None:
        plot_report(found, plot, export.study.title, max_score)
    about = {"source": source, "title": export.study.title, "people": _people(export)}
    yield about | report_dict(found, played)


def _read(source: Path) -> Export:
    """The files of a study, or those that were exported of it."""
    from hanabi_rl.people.study.export import gather, read_export
    from hanabi_rl.people.study.folder import StudyFolder, read_study_of

    if source.is_file():
        return read_export(source)
    if not (source / "study.json").is_file():
        raise ValueError(
            f"expected the folder of a study, or games that were exported, got {source}: no "
            "study.json in it"
        )
    return gather(StudyFolder(source, read_study_of(source)), unfinished=True)


def _people(export: Export) -> dict[str, int]:
    """How many agreed, played, stopped early and were not let in by the check."""
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
    instead = sum(line["instead"] for line in export.lines)
    if instead:
        text += f", {count(instead, 'game')} that awaited a person had an agent, and do not count"
    if people["screened"]:
        text += f", {people['screened']} had too few answers of the check right to play"
    return text


def _played(export: Export) -> list[PlayFigures]:
    """How the agents played the finished games that count."""
    from hanabi_rl.evaluation.measure.study_games import play_figures
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
    marks = [[turn for line in table for turn in line["questioned"]] for table in tables.values()]
    return play_figures(export.games.select(list(tables)), agents, people, marks)


def metrics_of(played: Sequence[PlayFigures]) -> dict[str, dict[str, float]]:
    """Objective metric -> agent -> value, to rank agents by; none of too few agents for that."""
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


def _gauntlet_figures(path: Path) -> dict[str, dict[str, float]]:
    """Figure -> identity of an agent -> value."""
    found: dict[str, dict[str, float]] = {"gauntlet, mean": {}, "gauntlet, worst": {}}
    for agent in _content(path, "agents"):
        if summary := agent["family_summary"].get("all"):
            for name in ("mean", "worst"):
                found[f"gauntlet, {name}"][agent["self_play"]["policy_hash"]] = summary[name]
    return found


def _br_prox_figures(path: Path) -> dict[str, dict[str, float]]:
    methods = _content(path, "scores")["methods"]
    return {
        "BR-Prox": {
            agent["policy_hash"]: methods[agent["method"]]["all"]["iqm"]
            for agent in _content(path, "agents")
        }
    }


def _content(path: Path, name: str) -> Any:
    from hanabi_rl.storage.files import read_json

    content: Any = read_json(path)
    if not isinstance(content, dict) or name not in content:
        raise ValueError(f"{path}: expected what the command prints with --json, got no {name!r}")
    return content[name]


def _of_study(
    path: Path, figures: dict[str, dict[str, float]], hashes: dict[str, str]
) -> dict[str, dict[str, float]]:
    """Figure -> agent of the study -> value. Agents are matched by their hash, not by name."""
    found = {
        name: {agent: of[identity] for agent, identity in hashes.items() if identity in of}
        for name, of in figures.items()
    }
    if not any(found.values()):
        raise ValueError(
            f"{path}: expected an agent of the study, got none: {', '.join(hashes)} have other "
            "hashes than the agents measured"
        )
    return found
