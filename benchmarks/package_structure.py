"""Structure of the package: imports between subpackages, cycles, longest chain, size of a run.

Also the lines that one reads to follow one PPO update from the script to the gradient (`WAY`).

    python benchmarks/package_structure.py [--package hanabi_rl] [--entry MODULE ...] [--json]
    python benchmarks/package_structure.py --map

Imports are read from the source: those at module level and, separately, those inside functions,
without imports for type checkers. Cycles are searched among all. The map lists all subpackages in
the order of the data, with the first sentence of each module's docstring.
"""

import argparse
import ast
import functools
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Graph = dict[str, set[str]]
FLOW = (
    *("storage", "games", "data", "nn", "agents", "learning", "play", "evaluation"),
    *("runs", "algorithms", "launch", "cli", "people"),
)
"""The subpackages in the order in which the map has them; others follow."""
ENTRY = ["hanabi_rl.launch.script", "hanabi_rl.algorithms.hdr_ippo"]
WAY = {
    "launch.script": ("main", "train"),
    "algorithms.registry": ("_Algorithms.__getitem__",),
    "algorithms.hdr_ippo": ("hdr_objective", "hdr_ippo", "HDRIPPO.training"),
    "algorithms.ppo_runner": (
        "TrainingSetup",
        "PPOAlgorithm.run",
        "PPOAlgorithm.train",
        "PPOLearner.update",
        "PPOLearner.terms",
    ),
    "runs.trainer": ("Schedule", "Trainer.__post_init__", "Trainer.run"),
    "learning.parallel": ("data_parallel", "psum"),
    "learning.rollout_learner": (
        "LearnerState",
        "RolloutLearner.env",
        "RolloutLearner.view",
        "RolloutLearner.module",
        "RolloutLearner.initial_carry",
        "RolloutLearner.apply",
        "RolloutLearner.collector",
        "RolloutLearner.init",
        "RolloutLearner.optimizer",
        "RolloutLearner.compile_update",
        "RolloutLearner.env_steps",
        "RolloutLearner.reward",
        "RolloutLearner.progress",
        "RolloutLearner.joint_actions",
    ),
    "learning.ppo": (
        "Experience",
        "PPO.privileged",
        "PPO.update",
        "PPO.make_experience",
        "PPO.returns",
        "PPO.update_epochs",
        "PPO.minibatches",
        "PPO.examples_per_block",
        "PPO.gradient",
        "PPO.batch",
        "global_weights",
        "normalize",
    ),
    "learning.network_inputs": ("observation_view", "_structured_view"),
    "learning.rollout": (
        "EpisodeSetup",
        "self_play",
        "TrainContext",
        "RunnerState",
        "Rollout",
        "Collector",
    ),
    "learning.observation_views": (
        "ViewOutput",
        "ObservationView.noise_rows",
        "ObservationView.decides",
        "CurrentPlayerView.rows",
        "CurrentPlayerView.encode_step",
        "CurrentPlayerView.seats",
        "CurrentPlayerView.select_rows",
        "CurrentPlayerView.joint_action",
        "CurrentPlayerView.stored_inputs",
        "CurrentPlayerView.minibatch_index",
        "CurrentPlayerView.seat_at",
        "CurrentPlayerView.minibatch_inputs",
        "CurrentPlayerView._legal",
        "flatten_rows",
        "unflatten_rows",
    ),
    "learning.structured_view": (
        "StructuredView.memory",
        "StructuredView.read",
        "true_hand_of_current_player",
    ),
    "learning.partner_population": ("apply_policy", "_apply_one", "_reads_inputs"),
    "agents.policy": ("NetworkPolicy.step_features",),
    "learning.rewards": (
        "HanabiShaping.reward",
        "HanabiShaping.score_reward",
        "true_score_weight",
        "with_biased_reward",
    ),
    "learning.returns": ("td_error", "gae"),
    "learning.minibatches": ("minibatch_indices",),
    "learning.losses": (
        "PPOBatch",
        "clipped_surrogate",
        "clipped_value_error",
        "kl_to_reference",
        "ppo_loss",
    ),
}
"""What one reads, module by module, of the README's run: HDR-IPPO with the structured network, its
privileged critic and its reward. Leaves: rules and environment, features and layers of the network,
flags, the clone, evaluation, metrics and files."""


def modules(package: Path) -> dict[str, Path]:
    """Every module of a package by its dotted name."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def import_graph(package: Path, *, when_asked: bool = True) -> Graph:
    """module -> the modules of the package that it imports: when it is loaded and, `when_asked`,
    also inside functions."""
    known = modules(package)
    graph: Graph = {}
    for name, path in known.items():
        targets: set[str] = set()
        for node in _running_code(ast.parse(path.read_text()), when_asked):
            if isinstance(node, ast.Import):
                targets |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                whole = [f"{node.module}.{alias.name}" for alias in node.names]
                targets |= {target if target in known else node.module for target in whole}
        graph[name] = (targets & set(known)) - {name}
    return graph


def _running_code(tree: ast.AST, functions: bool) -> Iterator[ast.AST]:
    """Every node but those under `if TYPE_CHECKING`, and unless asked for those in functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not functions:
            continue
        yield node
        yield from _running_code(node, functions)


def circles(graph: Graph) -> list[list[str]]:
    """Groups of modules that import each other (strongly connected components of more than one)."""
    reach = {name: reachable(graph, name) for name in graph}
    groups = {frozenset([n, *(m for m in reach[n] if n in reach[m])]) for n in graph}
    return sorted(sorted(group) for group in groups if len(group) > 1)


def reachable(graph: Graph, start: str) -> set[str]:
    """Every module that `start` imports, directly or not."""
    seen: set[str] = set()
    todo = [start]
    while todo:
        for target in graph[todo.pop()] - seen:
            seen.add(target)
            todo.append(target)
    return seen


def longest_chain(graph: Graph) -> list[str]:
    """The longest path of imports between different modules; a circle counts as one module."""
    group_of = {name: group[0] for group in circles(graph) for name in group}
    merged: Graph = {}
    for name, targets in graph.items():
        own = group_of.get(name, name)
        merged.setdefault(own, set()).update(
            {group_of.get(target, target) for target in targets} - {own}
        )

    @functools.cache
    def chain(name: str) -> tuple[str, ...]:
        return (name, *_longest(chain(target) for target in merged[name]))

    return list(_longest(chain(name) for name in merged))


def _longest(chains: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return max(chains, key=lambda chain: (len(chain), chain), default=())


def subpackage(name: str) -> str:
    """The folder of a module, or the module itself where it lies at the top."""
    return ".".join(name.split(".")[:2])


def definitions(path: Path, *, docs: bool = True) -> dict[str, int]:
    """The lines of every function, class and method of a module by its name (`PPO.update`), its
    decorators among them; with `docs` also docstrings, comments and blank lines."""
    found: dict[str, int] = {}
    text, skipped = path.read_text(), set[int]()
    if not docs:
        lines = enumerate(text.splitlines(), start=1)
        skipped |= {number for number, line in lines if re.fullmatch(r"\s*(#.*)?", line)}
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                skipped |= set(range(node.lineno, (node.end_lineno or 0) + 1))

    def add(body: Iterable[ast.stmt], prefix: str) -> None:
        for node in body:
            if not isinstance(node, ast.FunctionDef | ast.ClassDef):
                continue
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            own = set(range(first, (node.end_lineno or first) + 1))
            found[prefix + node.name] = len(own - skipped)
            if isinstance(node, ast.ClassDef):
                add(node.body, f"{prefix}{node.name}.")

    add(ast.parse(text).body, "")
    return found


def way(package: Path, names: Mapping[str, Sequence[str]], *, docs: bool = True) -> dict[str, int]:
    """Lines of what one reads, by `module:name`; docs: see `definitions`.

    Raises:
        ValueError: a name is gone from its module, or its module.
    """
    known, lines = modules(package), {}
    for module, wanted in names.items():
        path = known.get(f"{package.name}.{module}")
        there = {} if path is None else definitions(path, docs=docs)
        for name in wanted:
            if name not in there:
                raise ValueError(f"WAY: expected {name} in {package.name}.{module}, got none")
            lines[f"{module}:{name}"] = there[name]
    return lines


def way_chain(graph: Graph, package: str, names: Iterable[str]) -> list[str]:
    """The longest chain of imports among the modules of `WAY`; the registry imports the algorithm
    of the run."""
    wanted = {f"{package}.{module}" for module in names}
    among = {name: graph.get(name, set()) & wanted for name in wanted}
    registry, algorithm = f"{package}.algorithms.registry", f"{package}.algorithms.hdr_ippo"
    if registry in among:
        among[registry].add(algorithm)
    return longest_chain(among)


def package_map(package: Path) -> str:
    """The subpackages and their modules as markdown: what their docstrings say first.

    Raises:
        ValueError: a module without a docstring.
    """
    lines = [
        "# Modules",
        "",
        "Printed by `python benchmarks/package_structure.py --map` from the docstrings. "
        "[Architecture](../architecture.md) describes the packages.",
    ]
    place = {name: number for number, name in enumerate(FLOW)}
    subpackages: dict[str, list[str]] = {}
    for name, path in modules(package).items():
        inside = name.split(".")[1:]
        if not inside or path == package / f"{inside[0]}.py":
            continue  # the package itself, and modules outside subpackages
        says = _first_sentence(name, path)
        own = subpackages.setdefault(inside[0], [])
        if len(inside) == 1:
            own[:0] = ["", f"## {inside[0]}/", "", says, ""]
        else:
            folder = "/" if path.name == "__init__.py" else ""
            own.append(f"- `{'/'.join(inside[1:])}{folder}`: {says}")
    for subpackage_name in sorted(
        subpackages, key=lambda name: (place.get(name, len(place)), name)
    ):
        lines += subpackages[subpackage_name]
    return "\n".join(lines) + "\n"


def _first_sentence(name: str, path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text()))
    if not text:
        raise ValueError(f"{name}: expected a docstring, which is its line of the map")
    words = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<!al)[.] ", words)[0].rstrip(".:") + "."  # not after "et al."


def figures(package: Path, entry: Sequence[str]) -> dict[str, Any]:
    """What is printed, as JSON-ready figures."""
    graph, loaded = import_graph(package), import_graph(package, when_asked=False)
    top = package.name
    inner, inner_loaded = (
        {name: targets for name, targets in g.items() if name != top} for g in (graph, loaded)
    )
    arrows = {
        (subpackage(a), subpackage(b))
        for a, targets in inner.items()
        for b in targets
        if subpackage(a) != subpackage(b) and b != top
    }
    return {
        "modules": len(graph),
        "subpackages": len({subpackage(name) for name in inner}),
        "arrows": len(arrows),
        "subpackage_circles": circles(
            {r: {b for a, b in arrows if a == r} for r in {subpackage(name) for name in inner}}
        ),
        "circles": circles(graph),
        "entry": entry,
        "entry_imports": len(set(entry).union(*(reachable(loaded, name) for name in entry))),
        "entry_imports_when_asked": len(
            set(entry).union(*(reachable(graph, name) for name in entry))
        ),
        "way": (read := way(package, WAY)),
        "way_lines": sum(read.values()),
        "way_code_lines": sum(way(package, WAY, docs=False).values()),
        "way_chain": way_chain(loaded, top, WAY),
        "longest_chain": longest_chain(inner_loaded),
        "longest_chain_when_asked": longest_chain(inner),
    }


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--package", type=Path, default=Path(__file__).parents[1] / "hanabi_rl")
    parser.add_argument("--entry", nargs="+", default=ENTRY, help="what a training run imports")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--map", action="store_true", help="print the subpackages as markdown")
    args = parser.parse_args()
    if args.map:
        print(package_map(args.package), end="")
        return
    found = figures(args.package, args.entry)
    steps = found["way_chain"]
    chain, longer = found["longest_chain"], found["longest_chain_when_asked"]
    lines = [
        f"{found['modules']} modules in {found['subpackages']} subpackages, "
        f"{found['arrows']} arrows between subpackages",
        f"one training run ({', '.join(args.entry)}) loads {found['entry_imports']} of them, at "
        f"most {found['entry_imports_when_asked']}",
        f"from the script to the PPO gradient: {found['way_lines']:,} lines in "
        f"{len(found['way'])} functions and classes of {len(WAY)} modules, "
        f"{found['way_code_lines']:,} without docstrings and comments",
        f"chain of these modules, {len(steps)}: {' -> '.join(steps)}",
        f"longest chain, {len(chain)}: {' -> '.join(chain)}",
        f"longest chain with what is imported when asked for, {len(longer)}: {' -> '.join(longer)}",
        f"circles of modules: {found['circles'] or 'none'}",
        f"circles of subpackages: {found['subpackage_circles'] or 'none'}",
    ]
    print("\n".join(lines), file=sys.stderr if args.json else sys.stdout)
    if args.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
