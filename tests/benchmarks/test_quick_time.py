"""`benchmarks/quick_time.py`: where a stack belongs."""

import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from support.benchmarks import benchmark

# the real one changes settings of the process
with patch.dict(sys.modules, {"common": SimpleNamespace(Record=dict)}):
    quick_time = benchmark("quick_time")


def called(file: str, name: str, inner: Callable[[], Any]) -> Callable[[], Any]:
    """A function `name` of a file that calls `inner`."""
    space: dict[str, Any] = {"inner": inner, "module_name": "jit_step"}
    source = f"def {name}(module_name='jit_step'):\n    return inner()"
    exec(compile(source, file, "exec"), space)
    made: Callable[[], Any] = space[name]
    return made


def look() -> tuple[str, str, str]:
    found: tuple[str, str, str] = quick_time.place(threading.get_ident())
    return found


def test_place_of_stacks() -> None:
    training = "/x/hanabi_rl/algorithms/ppo_runner.py"
    measuring = "/x/hanabi_rl/evaluation/measure/selfplay.py"
    assert look() == ("start", "run", "")
    assert called(training, "train", look)() == ("train", "run", "")
    traced = called("/x/jax/partial_eval.py", "trace_to_jaxpr", look)
    assert called(training, "train", called(measuring, "score", traced))() == (
        "measure",
        "trace",
        "",
    )
    compiled = called("/x/jax/compiler.py", "backend_compile_and_load", look)
    cached = called("/x/jax/compiler.py", "compile_or_get_cached", compiled)
    # a constant that tracing computes is compiled
    outer = called("/x/jax/partial_eval.py", "trace_to_jaxpr", cached)
    assert called(training, "train", outer)() == ("train", "compile", "jit_step")
