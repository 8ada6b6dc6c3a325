"""Python part of `accelerator.sh`: parse printed results, and tabulate them.

python benchmarks/accelerator_table.py table RESULTS
"""

import json
import sys
from pathlib import Path
from typing import Any

FIGURES = {
    "devices": ("device", "count", "versions"),
    "env_steps": ("ours_per_s", "jaxmarl_per_s", "ratio", "ratio_no_obs", "adapter_ratio"),
    "update": ("ours_per_s", "float32_per_s", "compile_s", "ours_update_bytes"),
    "ippo": ("steps_per_s", "selfplay", "steps", "wall_s"),
    "games": (),
    "hdr_ippo": ("steps_per_s", "steps", "wall_s"),
    "hdr_ippo_resumed": ("steps_per_s", "from_step", "steps"),
    "bc_epoch": ("ours_s", "plain_s", "ratio", "ours_compile_s", "plain_compile_s"),
    "update_plain": ("plain_per_s", "plain_compile_s"),
    "update_plain_bfloat16": ("plain_per_s", "plain_compile_s"),
    "update_plain_highest": ("plain_per_s", "plain_compile_s"),
}
"""The steps in their order, and the figures of each that the table shows."""

PLAIN = {
    "update_plain": "the plain trainer",
    "update_plain_bfloat16": "... in bfloat16",
    "update_plain_highest": "... in neither bfloat16 nor TF32",
}

Record = dict[str, Any]


def devices(anything: bool) -> Record:
    """What JAX runs on. Raises SystemExit where that is a CPU, unless `anything` will do."""
    import jax

    found = jax.devices()
    if found[0].platform == "cpu" and not anything:
        sys.exit("accelerator.sh: expected an accelerator, JAX has a CPU alone (--small rehearses)")
    return {
        "device": found[0].device_kind,
        "count": len(found),
        "versions": f"Python {sys.version.split()[0]}, jax {jax.__version__}",
    }


def rate(run: Path, before: int) -> Record:
    """The speed of a run after its line `before` of metrics: environment steps over seconds,
    evaluations included, the first update not, which compiles. Raises SystemExit where there is no
    update."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    new = [line for line in lines[before:] if "loss" in line]
    if not new:
        sys.exit(f"{run}: expected updates after line {before} of metrics, got none")
    first, last = new[0], new[-1]
    steps, seconds = last["env_steps"] - first["env_steps"], last["wall_s"] - first["wall_s"]
    scores = [line["selfplay_mean"] for line in lines if line.get("selfplay_mean") is not None]
    return {
        "steps_per_s": round(steps / seconds) if seconds else None,
        "from_step": first["env_steps"],
        "steps": last["env_steps"],
        "wall_s": round(last["wall_s"], 1),
        "selfplay": scores[-1] if scores else None,
    }


def keep(printed: Path, seconds: int) -> Record:
    """The last line printed, where it is a record, and how long the step took."""
    lines = printed.read_text().splitlines() or [""]
    try:
        record = json.loads(lines[-1])
    except ValueError:
        record = {}
    return {**(record if isinstance(record, dict) else {}), "took_s": seconds}


def table(results: Path) -> str:
    """The steps that are done, as markdown."""
    done = {
        name: json.loads((results / f"{name}.json").read_text())
        for name in FIGURES
        if (results / f"{name}.json").exists()
    }
    rows = ["| step | figures | took |", "|---|---|---|"]
    for name, record in done.items():
        shown = [f"{key} {_number(record.get(key))}" for key in FIGURES[name]]
        text = f"failed: {record['failed']}" if "failed" in record else ", ".join(shown)
        rows.append(f"| {name} | {text} | {record['took_s']} s |")
    ours = done.get("update", {})
    for name, label in PLAIN.items():
        plain = done.get(name, {}).get("plain_per_s")
        ratios = [
            f"{key} {ours[f'{key}_per_s'] / plain:.2f}"
            for key in ("ours", "float32")
            if plain and f"{key}_per_s" in ours
        ]
        if ratios:
            rows.append(f"| updates against {label} | {', '.join(ratios)} | |")
    return "\n".join(rows)


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def main(job: str, *args: str) -> None:
    """One of the jobs above; prints what it returns."""
    if job == "table":
        print(table(Path(args[0])))
    elif job == "devices":
        print(json.dumps(devices("--any" in args)))
    elif job == "rate":
        print(json.dumps(rate(Path(args[0]), int(args[1]))))
    elif job == "keep":
        print(json.dumps(keep(Path(args[0]), int(args[1]))))
    else:
        sys.exit(f"accelerator_table.py: expected table, devices, rate or keep, got {job}")


if __name__ == "__main__":
    main(*sys.argv[1:])
