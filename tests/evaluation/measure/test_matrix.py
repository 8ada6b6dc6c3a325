"""The cross-play matrix against single pairs, its cache, and its files."""

import csv
import dataclasses
import gc
import io
import json
import warnings
from types import SimpleNamespace

import flax.struct
import numpy as np
import pytest
from matplotlib import colors
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from support.games import LENIENT, LENIENT_3P
from support.policies import ClockPolicy, network_policy, recurrent_policy
from support.tables import text_of
from support.tiny_games import Dice, Signals

from hanabi_rl.agents.policy import PolicyInfo
from hanabi_rl.data.formats.hanab_live_decks import deck_from_seed
from hanabi_rl.data.games import concatenate_games
from hanabi_rl.evaluation.measure import crossplay
from hanabi_rl.evaluation.measure import matrix as matrix_module
from hanabi_rl.evaluation.measure.cells import Cell, CellCache, CellKey
from hanabi_rl.evaluation.measure.crossplay import evaluate_pair
from hanabi_rl.evaluation.measure.matrix import (
    EvalSetting,
    MatrixAgent,
    cell_games,
    cell_key,
    cell_pairs,
    get_or_play_cell,
    has_fixed_seats,
    make_agents,
    play_cell,
    play_matrix,
)
from hanabi_rl.evaluation.reporting.matrix import (
    matrix_csv,
    matrix_dict,
    matrix_parts,
    plot_matrix,
    short_labels,
)
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.overcooked.overcooked import Overcooked
from hanabi_rl.play.episodes import _play_turn, _step
from hanabi_rl.storage import compilation_cache
from hanabi_rl.storage.files import to_json

GAMES = 16
SETTING = EvalSetting(GAMES, seed=3)


@pytest.fixture(scope="module")
def agents():
    return make_agents(
        [network_policy(LENIENT, seed) for seed in (1, 2, 3)], ["a", "b", "c"], ["bc", "bc", "rl"]
    )


@pytest.fixture(scope="module")
def matrix(agents):
    return play_matrix(agents, SETTING)


@pytest.fixture
def played(monkeypatch):
    """Number of games in each call of `play_games`."""
    calls, play_games = [], crossplay.play_games

    def count(lineup, rules, decks, *args, **kwargs):
        calls.append(len(decks))
        return play_games(lineup, rules, decks, *args, **kwargs)

    monkeypatch.setattr(crossplay, "play_games", count)
    return calls


def test_cells_match_evaluate_pair(agents, matrix):
    for i in range(3):
        for j in range(3):
            pair = evaluate_pair(agents[i].policy, agents[j].policy, GAMES, seed=3)
            assert matrix.cells[i][j] == pair.summary
    # policies that play differently
    assert len({cell for row in matrix.cells for cell in row}) == 6


@pytest.mark.slow  # the two-player test covers the same
def test_row_is_single_agent(played):
    policies = [network_policy(LENIENT_3P, seed) for seed in (1, 2)]
    matrix = play_matrix(make_agents(policies, ["a", "b"], ["bc", "bc"]), SETTING)
    assert played == [GAMES, 3 * GAMES, 3 * GAMES, GAMES]  # every seat of the single agent
    for i, j in ((0, 1), (1, 0)):
        assert matrix.cells[i][j] == evaluate_pair(policies[i], policies[j], GAMES, seed=3).summary


def test_only_two_seats_that_differ_are_kept_apart():
    class Alike(Signals):
        seats_alike = True

    assert has_fixed_seats(Signals()) and has_fixed_seats(Overcooked("cramped_room"))
    assert not any(has_fixed_seats(rules) for rules in (Alike(), Dice(), LENIENT))


def test_new_agent_plays_row_and_column(agents, matrix, tmp_path, played):
    cache = CellCache(tmp_path / "cells")
    play_matrix(agents[:2], SETTING, cache=cache)
    assert sorted(played) == [GAMES, GAMES, 2 * GAMES]
    played.clear()
    # placed first: the order does not matter
    larger = play_matrix((agents[2], *agents[:2]), SETTING, cache=cache)
    assert sorted(played) == [GAMES, 2 * GAMES, 2 * GAMES]
    assert larger.cells[1][2] == matrix.cells[0][1] and larger.cells[0][1] == matrix.cells[0][2]
    played.clear()
    play_matrix(agents, SETTING, cache=cache)
    assert played == []


@pytest.mark.parametrize("change", [{"games": 8}, {"seed": 4}, {"sample": True}])
def test_settings_change_cell(agents, tmp_path, played, change):
    cache = CellCache(tmp_path)
    play_matrix(agents[:1], SETTING, cache=cache)
    play_matrix(agents[:1], SETTING._replace(**change), cache=cache)
    assert played == [GAMES, change.get("games", GAMES)]


def test_interrupted_matrix_continues(agents, matrix, tmp_path, played):
    def stop(done, total, was_played):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play_matrix(agents, SETTING, cache=CellCache(tmp_path), on_cell=stop)
    before = len(played)
    resumed = play_matrix(agents, SETTING, cache=CellCache(tmp_path))
    assert (before, len(played)) == (4, 6)
    assert matrix_csv(resumed) == matrix_csv(matrix)


@pytest.mark.parametrize("damage", ["cut", "flipped", "other"])
def test_damaged_cell_is_replayed(agents, matrix, tmp_path, played, damage):
    cache = CellCache(tmp_path)
    play_matrix(agents[:1], SETTING, cache=cache)
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    if damage == "cut":
        content = content[: len(content) // 2]
    elif damage == "flipped":
        content[content.index(b"scores.npy") + 60] ^= 255  # in the compressed scores
    else:
        key = CellKey(agents[0].policy.rules, agents[0].hash, agents[1].hash, GAMES, 3, False)
        cache.save(key, play_cell(*agents[:2], SETTING))
        played.pop()
        content = cache.path(key).read_bytes()
    path.write_bytes(content)
    with pytest.warns(UserWarning, match="replaying its games"):
        again = play_matrix(agents[:1], SETTING, cache=cache)
    assert again.cells[0][0] == matrix.cells[0][0] and len(played) == 2
    # the file was repaired
    assert play_matrix(agents[:1], SETTING, cache=cache).cells == again.cells and len(played) == 2


def test_flipped_bits_are_reported_as_damage(tmp_path):
    """Some raise errors of zlib, tokenize or zipfile."""
    cache, key = CellCache(tmp_path), CellKey(LENIENT, "a", "b", GAMES, 3, False)
    rng, shapes = np.random.default_rng(0), [(2, GAMES)] * 3 + [(2, GAMES, LENIENT.max_turns), (2,)]
    cell = Cell(*(rng.integers(0, 20, shape).astype(np.uint8) for shape in shapes))
    cache.save(key, cell)
    whole = cache.path(key).read_bytes()
    for place in range(0, len(whole), 23):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 7
        cache.path(key).write_bytes(damaged)
        with warnings.catch_warnings(action="ignore"):
            found = cache.load(key)
        assert found is None or all(map(np.array_equal, found, cell))


def test_named_deals_have_separate_cells(monkeypatch):
    """The key depends on the decks: other deals change the cell, other spellings do not; without
    names the key has no decks."""
    one, other = (
        MatrixAgent(label, label, SimpleNamespace(rules=Rules()), label) for label in ("a", "b")
    )
    named = [
        EvalSetting(3, seed_names=names)
        for names in (("p2v0s1..3",), ("p2v0s1", "p2v0s2..3"), ("p2v0s2..4",))
    ]
    plain, first, same, shifted = (
        cell_key(one, other, setting) for setting in (EvalSetting(3), *named)
    )
    assert "decks" not in plain.as_dict()
    assert first == same and len({key.digest() for key in (plain, first, shifted)}) == 3
    dealt = []

    def evaluate(*args, decks, **kwargs):
        dealt.append(decks)
        raise KeyboardInterrupt

    monkeypatch.setattr(matrix_module, "evaluate_pair", evaluate)
    with pytest.raises(KeyboardInterrupt):
        play_cell(one, other, named[2])
    expected = [deck_from_seed(f"p2v0s{number}").tolist() for number in (2, 3, 4)]
    assert dealt[0].tolist() == expected
    zeros = np.zeros((2, 3), np.int8)
    moves = np.full((2, 3, Rules().max_turns), Rules().noop, np.uint8)
    cell = Cell(zeros, zeros, zeros, moves, np.array([0, 1], np.int8))
    assert cell_games(one, other, named[2], cell).decks.tolist() == expected * 2
    with pytest.raises(ValueError, match="expected games=3, one per deal, got 5"):
        cell_key(one, other, EvalSetting(5, seed_names=("p2v0s1..3",)))


@pytest.mark.parametrize("players", [2, 3])
def test_cell_stores_games(players, tmp_path):
    rules, cache = LENIENT if players == 2 else LENIENT_3P, CellCache(tmp_path)
    pair = make_agents([network_policy(rules, s) for s in (1, 2)], ["a", "b"], ["bc", "bc"])
    for single, others in (pair, pair[::-1], (pair[0], pair[0])):
        for _ in range(2):  # played, then loaded
            cell, _ = get_or_play_cell(single, others, SETTING, cache)
            games = cell_games(single, others, SETTING, cell)
            result = evaluate_pair(single.policy, others.policy, GAMES, seed=3)
            seat = np.repeat([seating[0] for seating in result.seatings], GAMES)
            played = concatenate_games(result.records)
            if single is others:
                assert games.human_seats is None
            else:
                # for two players the seatings can have the other order
                own = np.argmax(games.human_seats, axis=1)
                assert games.human_seats.sum() == len(games) and sorted(own) == sorted(seat)
                order = np.argsort(own, kind="stable")
                games, played = games.select(order), played.select(np.argsort(seat, kind="stable"))
            for field in ("decks", "actions", "num_actions", "scores", "points", "lives"):
                assert np.array_equal(getattr(games, field), getattr(played, field)), field


def test_structures_compile_once(matrix):
    compiled = _step.jitted._cache_size()
    others = make_agents(
        [network_policy(LENIENT, seed) for seed in (5, 6)], ["d", "e"], ["bc", "bc"]
    )
    play_matrix(others, SETTING)
    assert _step.jitted._cache_size() == compiled


def test_agents_compile_once_whatever_their_partners():
    """Ten structures are 55 line-ups."""
    kinds = [flax.struct.dataclass(type(f"Clock{k}", (ClockPolicy,), {})) for k in range(10)]
    policies = [kind(period=np.int32(k % 3 + 1), rules=LENIENT) for k, kind in enumerate(kinds)]
    agents = tuple(MatrixAgent(f"{k}", "bot", bot, f"{k}") for k, bot in enumerate(policies))
    compiled = _step.jitted._cache_size(), _play_turn.jitted._cache_size()
    play_matrix(agents, SETTING)
    after = _step.jitted._cache_size(), _play_turn.jitted._cache_size()
    assert after[0] - compiled[0] == 10 and after[1] - compiled[1] <= 2


def test_identity_ignores_policy_origin():
    """`policy/`, `policy-latest/` and a checkpoint of a run differ only in their training
    metadata."""
    first = network_policy(LENIENT, 1)
    again = first.replace(info=PolicyInfo("ippo", steps=128, score=2.5, greedy=False))
    cells = {
        CellKey(LENIENT, policy.identity(), policy.identity(), GAMES, 3, False).digest()
        for policy in (first, again)
    }
    assert len(cells) == 1
    with pytest.raises(ValueError, match="expected policies that differ, got the same one as a"):
        make_agents([first, again], ["a", "b"], ["bc", "ippo"])


def test_pairs_are_ordered_by_structure():
    networks = make_agents(
        [network_policy(LENIENT, seed) for seed in (1, 2)], ["a", "b"], ["bc", "bc"]
    )
    other = networks[0]._replace(policy=recurrent_policy(LENIENT, 1), label="other")
    pairs = cell_pairs((networks[0], other, networks[1]))
    assert sorted(pairs) == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 1),
        (2, 1),
        (2, 2),
    ]  # (2, 1) as (0, 1): network, other


def test_files_hold_every_cell(agents, matrix):
    rows = list(csv.DictReader(io.StringIO(matrix_csv(matrix))))
    assert [(row["row"], row["column"]) for row in rows] == [(i, j) for i in "abc" for j in "abc"]
    cell, row = matrix.cells[0][2], rows[2]
    assert (row["row_group"], row["column_group"], row["games"]) == ("bc", "rl", str(2 * GAMES))
    for name, value in {
        "mean": cell.mean.mean,
        "ci95_low": cell.mean.low,
        "ci95_high": cell.mean.high,
        "std_error": cell.mean.std_error,
        "median": cell.median,
        "zero_rate": cell.zero_rate,
        "perfect_rate": cell.perfect_rate,
        "points_mean": cell.points.mean,
    }.items():
        assert float(row[name]) == value
    record = json.loads(json.dumps(to_json(matrix_dict(matrix))))
    assert [agent["hash"] for agent in record["agents"]] == [
        agent.policy.identity() for agent in agents
    ]
    np.testing.assert_array_equal(record["means"], matrix.means)
    assert [group["group"] for group in record["groups"]] == ["bc", "rl"]
    assert record["group_means"][1][1] is None and len(record["cells"]) == 9
    np.testing.assert_array_equal(record["medians"], [[c.median for c in r] for r in matrix.cells])
    text = text_of(matrix_parts, matrix)
    assert f"{matrix.means[0, 2]:.2f}" in text and "By group" in text
    printed = text.split("Medians of the same games\n")[1].splitlines()[1:4]
    for line, cells in zip(printed, matrix.cells, strict=True):
        assert line.split()[2:] == [f"{cell.median:.1f}" for cell in cells]
    assert f"{GAMES} decks x 2 seats of the row's agent = {matrix.cells[0][1].num_games};" in text
    assert f"(self-play): {matrix.cells[0][0].num_games}." in text
    printed = text.split("games with score 0\n")[1].splitlines()[1:4]
    assert any(cell.zero_rate for row in matrix.cells for cell in row)
    for line, cells in zip(printed, matrix.cells, strict=True):
        assert line.split()[2:] == [f"{cell.zero_rate:.1%}" for cell in cells]
    scored = [[dataclasses.replace(c, zero_rate=0.0) for c in row] for row in matrix.cells]
    none = dataclasses.replace(matrix, cells=tuple(map(tuple, scored)))
    assert "No game has score 0." in text_of(matrix_parts, none)


def test_missing_bounds_are_empty_fields(agents):
    """One deck has no standard error; `inf` in the file would enter averages."""
    matrix = play_matrix(agents[:1], EvalSetting(1, seed=3))
    (row,) = csv.DictReader(io.StringIO(matrix_csv(matrix)))
    assert (row["ci95_low"], row["ci95_high"], row["std_error"]) == ("", "", "")


def test_plot_shows_median_and_mean(tmp_path, monkeypatch):
    """As in AH2AC2's Figure 3."""
    texts = []
    text = Axes.text
    monkeypatch.setattr(
        Axes, "text", lambda self, *args, **more: (texts.append(args), text(self, *args, **more))[1]
    )
    means, medians = np.array([[1.25, 2.0], [3.0, 4.0]]), np.array([[1.0, 2.5], [0.0, 4.0]])
    plot_matrix(
        means, ["a", "b"], tmp_path / "m.png", medians=medians, title="t",
        seat_labels=("r", "c"),
    )  # fmt: skip
    assert [args for args in texts if args[:2] == (1, 0)] == [(1, 0, "2.0"), (1, 0, "(2.5)")]
    assert (0, 1, "(0)") in texts and (tmp_path / "m.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("means", "ends"),
    [([[20.0, 24.0], [21.5, 22.0]], (20, 24)), ([[3.0, 3.2], [3.1, 3.0]], (3, 4))],
)
def test_colors_span_the_means_and_text_is_readable(tmp_path, monkeypatch, means, ends):
    """Contrast as WCAG 2 defines it, at least 4.5 in every cell."""
    saved = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: saved.append(figure))
    plot_matrix(
        np.array(means), ["a", "b"], tmp_path / "m.png", medians=np.array(means), title="t",
        seat_labels=("r", "c"),
    )  # fmt: skip
    axes = saved[0].axes[0]
    assert axes.images[0].get_clim() == pytest.approx(ends)
    for text in axes.texts:
        column, row = text.get_position()
        cell = luminance(axes.images[0].to_rgba(means[row][column]))
        own = luminance(colors.to_rgba(text.get_color()))
        assert (max(cell, own) + 0.05) / (min(cell, own) + 0.05) > 4.5


def luminance(rgba):
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgba[:3]
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_labels_are_short_and_unique():
    assert short_labels(
        ["bot:random", "/r/bc-2p-s0-20261122T015258Z", "/r/bc-2p-s1-20261122T015259Z/policy"]
    ) == ["bot:random", "bc-2p-s0", "bc-2p-s1"]
    assert short_labels(["/r/x-20261122T015258Z", "/r/x-20261122T015259Z"]) == [
        "x-20261122T015258Z",
        "x-20261122T015259Z",
    ]
    assert short_labels(["/r/a/s0", "/r/b/s0", "/r/b/s1"]) == ["a/s0", "b/s0", "s1"]
    assert short_labels(["/r/x/policy-latest", "/r/x/checkpoints/70", "/r/x"]) == [
        "x/policy-latest",
        "x@70",
        "x",
    ]
    options = "?partner_games=data/simple.safetensors&noise=0.1"
    assert short_labels([f"agent:adhoc-2p{options}", f"/r/x/policy{options}", "/r/x"]) == [
        f"agent:adhoc-2p{options}",
        f"x{options}",
        "x",
    ]


def test_errors_state_expectation():
    one, same, three = (
        network_policy(LENIENT, 1),
        network_policy(LENIENT, 1),
        network_policy(LENIENT_3P, 1),
    )
    for policies, labels, message in [
        ([], [], "at least one agent"),
        ([one, same], ["x", "y"], "got the same one as x and as y"),
        ([one, three], ["x", "y"], "agents of one game, got x for 2 players and y for 3"),
        ([one, network_policy(LENIENT, 2)], ["x", "x"], "unique labels, got 'x' twice"),
    ]:
        with pytest.raises(ValueError, match=message):
            make_agents(policies, labels, ["bc"] * len(policies))


@pytest.mark.slow
@pytest.mark.skipif(not compilation_cache.MAPS.exists(), reason="needs Linux's /proc")
def test_compiled_programs_are_cleared_in_time(agents, matrix, monkeypatch):
    """Linux allows 65,530 mappings per process; a lineup takes hundreds."""

    def mappings():
        gc.collect()
        return len(compilation_cache.MAPS.read_bytes().splitlines())

    before, compiled = mappings(), _step.jitted._cache_size()
    assert compiled > 0
    monkeypatch.setattr(compilation_cache, "MAX_MAPS", before - 1)
    compilation_cache.free_compiled_programs()
    assert mappings() < before and _step.jitted._cache_size() == 0
    assert play_matrix(agents, SETTING).cells == matrix.cells
