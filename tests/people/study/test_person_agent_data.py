"""Data of participants with agents, from a study's files."""

import dataclasses

import numpy as np
import pytest
from support.games import TINY, random_games
from support.serving import STUDY

from hanabi_rl.evaluation.measure.study import agent_figures, person_groups
from hanabi_rl.people.study.design import study_of
from hanabi_rl.people.study.export import Export, person_agent_data, rating_of

SCALES = [{"name": name, "text": name} for name in ("one", "two", "three")]
FORM = [*SCALES, {"name": "words", "text": "?", "kind": "text"}]


def make_export(**changes):
    """1 plays a warm-up and two games with bot:a, one of them abandoned; 2 plays one with bot:b."""
    study = study_of(STUDY | {"after_game": FORM, "flag_moves": True} | changes)
    games = dataclasses.replace(random_games(TINY, 4), scores=np.array([6, 3, 2, 1], np.int32))
    rows = [
        (1, "bot:a", True, "finished", {"one": 7, "two": 7}),
        (1, "bot:a", False, "finished", {"one": 2, "two": 4, "words": "ok"}),
        (1, "bot:a", False, "left", {"one": 6}),
        (2, "bot:b", False, "finished", {}),
    ]
    lines = [
        {
            "participant": person,
            "agent": agent,
            "warm_up": warm_up,
            "instead": False,
            "end_reason": end,
            "answers": answers,
            "seat": 0,
            "questioned": [1, 3],
        }
        for person, agent, warm_up, end, answers in rows
    ]
    people = [
        {
            "participant": 1,
            "order": ["bot:b", "bot:a"],
            "partners": {},
            "end": {"ranking": {"bot:a": 2, "bot:b": 1}, "trusted": 6, "stronger": 7},
        },
        {
            "participant": 2,
            "order": ["bot:b", "bot:a"],
            "partners": {"bot:b": {"one": 5, "two": 1}},
            "end": {"ranking": {"bot:b": 1}, "trusted": 6, "stronger": 7},
        },
    ]
    return Export(study, games, lines, people)


def test_warm_ups_and_abandoned_games_have_no_score():
    export = make_export()
    first, second = person_agent_data(export)
    assert (first.person, first.agent, first.scores, first.abandoned) == (1, "bot:a", (3,), 1)
    assert first.rating == 3  # (2 + 4) / 2; fewer than half were answered for the other game
    assert first.flagged_moves == 2
    assert first.partner_moves == export.games.num_actions[1] // 2  # the participant moves second
    assert (second.person, second.agent, second.scores, second.rating) == (2, "bot:b", (1,), None)
    assert (first.rank, second.rank) == (None, None)  # a ranking needs two agents


def test_rank_is_among_agents_that_count():
    """The ranking includes a fallback agent."""
    export = make_export()
    export.lines[3]["participant"] = 1
    export.people[0]["end"]["ranking"] = {"bot:c": 1, "bot:b": 2, "bot:a": 3}
    places = {block.agent: block.rank for block in person_agent_data(export)}
    assert places == {"bot:a": 2, "bot:b": 1}


def test_partner_form_determines_the_rating():
    marked = [FORM[0], FORM[1] | {"rating": True}, *FORM[2:]]
    first, second = person_agent_data(make_export(after_partner=marked))
    assert (first.rating, second.rating) == (None, 1)
    first, second = person_agent_data(make_export(after_partner=FORM, flag_moves=False))
    assert second.rating == 3 and first.partner_moves == 0


def test_direct_comparison_is_signed_by_agent():
    scale = {"text": "?", "rating": True}
    questions = [{"name": "trusted", **scale}, {"name": "stronger", **scale}]
    first, second = person_agent_data(make_export(at_end=questions))
    assert (first.agent, first.preference) == ("bot:a", 2.5)  # second partner: 6.5 of 7
    assert (second.agent, second.preference) == ("bot:b", -2.5)
    assert person_agent_data(make_export())[0].preference is None


@pytest.mark.parametrize(
    ("answers", "rating"),
    [({"one": 3, "two": 4, "three": 5}, 4), ({"one": 3}, None), ({"words": "x"}, None), ({}, None)],
)
def test_rating_needs_half_of_the_scales(answers, rating):
    assert rating_of(study_of(STUDY | {"after_game": FORM}).after_game, answers) == rating


def of_two(games):
    """Export of games (first, second, end reason, participants in their warm-up)."""
    study = study_of(
        STUDY | {"agents": [{"name": "person"}], "fallback_agent": "bot:b", "wait_s": 9}
    )
    scores = np.arange(1, len(games) + 1, dtype=np.int32)
    lines = [
        {
            "participant": person,
            "agent": "person",
            "warm_up": person in warm_up,
            "instead": False,
            "end_reason": end,
            "answers": {},
            "seat": 0,
            "questioned": [],
        }
        for first, second, end, *warm_up in games
        for person in (first, second)
    ]
    people = [
        {"participant": person, "order": ["person"], "partners": {}, "end": {}}
        for person in dict.fromkeys(line["participant"] for line in lines)
    ]
    rows = [
        first | {"other": second} for first, second in zip(lines[::2], lines[1::2], strict=True)
    ]
    games_of_scores = dataclasses.replace(random_games(TINY, len(games)), scores=scores)
    return Export(study, games_of_scores, rows, people)


def test_shared_game_links_both_participants():
    blocks = person_agent_data(
        of_two(
            [
                (7, 9, "finished"),
                (9, 2, "finished"),  # 2, links all three
                (2, 7, "left"),
                (4, 3, "finished", 3),  # 4, counts for one of them
                (5, 3, "left"),
                (8, 4, "finished", 8, 4),  # 6, counts for neither
            ]
        )
    )
    found = {each.person: (each.scores, each.abandoned, each.shared) for each in blocks}
    assert found == {  # games count from 0, their scores from 1
        7: ((1,), 1, ((0, 1), (2, None))),
        9: ((1, 2), 0, ((0, 1), (1, 2))),
        2: ((2,), 1, ((1, 2), (2, None))),
        4: ((4,), 0, ()),
        3: ((), 1, ((4, None),)),
        5: ((), 1, ((4, None),)),
    }
    assert person_groups(blocks) == {7: 2, 9: 2, 2: 2, 4: 4, 3: 3, 5: 3}
    (of,) = agent_figures(blocks, ["person"])
    assert (of.people, of.groups, of.games, of.left) == (6, 3, 3, 2)


def test_participants_without_shared_games_are_separate_groups():
    blocks = person_agent_data(make_export())
    assert not any(block.shared for block in blocks)
    assert person_groups(blocks) == {block.person: block.person for block in blocks}
