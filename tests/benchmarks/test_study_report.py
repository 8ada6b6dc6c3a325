"""Simulated studies: equal results with and without files, true effects found, no false ones."""

import numpy as np
import pytest
from scipy import stats
from support.benchmarks import benchmark

from hanabi_rl.data.files import load_games, save_games
from hanabi_rl.people.study.export import export_study, gather, person_agent_data, read_export
from hanabi_rl.people.study.folder import StudyFolder, read_study_of

simulated = benchmark("simulated_study")


def test_simulated_studies_match_their_files(tmp_path):
    sampled = simulated.draw(simulated.SCENARIOS["line"], 2, np.random.default_rng(0))
    simulated.write_study(tmp_path / "study", sampled)
    folder = StudyFolder(tmp_path / "study", read_study_of(tmp_path / "study"))
    from_folder = person_agent_data(gather(folder))
    out = tmp_path / "games.safetensors"
    assert export_study(folder, out) == 18
    assert person_agent_data(read_export(out)) == from_folder
    numbers = sorted(person.number for person in folder.participants())
    for block, expected in zip(
        sorted(from_folder, key=lambda each: (each.agent, each.person)),
        simulated.as_blocks(sampled),
        strict=True,
    ):
        assert block.person == numbers[expected.person]
        assert (block.agent, block.rating) == (expected.agent, expected.rating)
        assert (block.rank, sorted(block.scores)) == (expected.rank, sorted(expected.scores))


def test_export_of_other_games_is_refused(tmp_path):
    sampled = simulated.draw(simulated.SCENARIOS["none"], 1, np.random.default_rng(0))
    folder = simulated.write_study(tmp_path / "study", sampled)
    out = tmp_path / "games.safetensors"
    export_study(folder, out)
    lines = out.with_suffix(".jsonl")
    lines.write_text("".join(lines.read_text().splitlines(keepends=True)[1:]))
    with pytest.raises(ValueError, match="expected one line per game"):
        read_export(out)
    out.with_suffix(".study.json").unlink()
    with pytest.raises(FileNotFoundError, match="export the study again"):
        read_export(out)


def test_truncating_export_formats_are_refused(tmp_path):
    sampled = simulated.draw(simulated.SCENARIOS["none"], 1, np.random.default_rng(0))
    folder = simulated.write_study(tmp_path / "study", sampled)
    for name in ("games.json", "games.jsonl"):  # the second is a name that the export also writes
        with pytest.raises(ValueError, match=r"--out: expected a file ending in \.safetensors"):
            export_study(folder, tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["study"]
    out = tmp_path / "games.safetensors"
    export_study(folder, out)
    save_games(out.with_suffix(".json"), load_games(out))
    with pytest.raises(ValueError, match="may omit the end of a game"):
        read_export(out.with_suffix(".json"))


@pytest.mark.slow
@pytest.mark.parametrize("people", [20, 100])
def test_report_detects_simulated_effects(people):
    studies = 300
    # with 100 participants only scenarios with effects: 20 make false positives likelier
    names = [name for name in simulated.SCENARIOS if people == 20 or name != "none"]
    found = {name: simulated.run_scenario(name, people, studies) for name in names}
    for name, shares in found.items():
        for figure, rate in shares.items():
            if figure.startswith("covered") and "where found" not in figure:
                assert rate > 0.95 - 4 * np.sqrt(0.95 * 0.05 / studies), (name, figure)
    if people == 20:
        false = round(found["none"]["found: anything"] * studies)
        assert stats.binomtest(false, studies, 0.05, alternative="greater").pvalue > 0.01
    if people == 100:
        assert found["line"]["found: line"] > 0.9 and found["line"]["found: parabola"] < 0.1
        assert found["parabola"]["found: parabola"] > 0.9
        assert found["line"]["found: score"] > 0.99
