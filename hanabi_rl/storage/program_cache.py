"""Cache of executables by source code: a command skips tracing and lowering, not only compiling.

JAX's own cache needs the lowered program as its key, and lowering takes most of the time of a
command with compiled programs. Keys here are the text of the package, the versions of the
libraries, all JAX settings, the processor, and the types of the arguments. A program whose
arguments contain a class outside the package is compiled by JAX as usual; so are all programs of a
process that imports modules of the user, which may replace functions of the package, and of one
that starts within a minute of an edit of the package, which may have read the text before it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import os
import pickle
import platform
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import flax
import jax
import jaxlib
import numpy as np
from jax.experimental import serialize_executable
from jax.experimental.compilation_cache import compilation_cache as jax_cache

from hanabi_rl.storage import compilation_cache
from hanabi_rl.storage.compilation_cache import cpu_fingerprint
from hanabi_rl.storage.files import canonical_json, write_bytes

_DIGEST = hashlib.sha256().digest_size
_PACKAGE = Path(__file__).parents[1]
QUICKLY = {
    "xla_backend_optimization_level": 1,
    "xla_cpu_parallel_codegen_split_count": 1,
    "xla_cpu_use_fusion_emitters": False,
}
"""Compiler options on a CPU: games compile in half the time, with equal results and speed.

Updates of structured networks compile faster too, run no slower, and are equal up to rounding."""
_STARTED = time.time()
_SETTLED_S = 60.0  # age of the last edit of the package at the start of a process
MAX_BYTES = 2**29  # the files that were not read for longest are deleted above this size
_LOCK = threading.Lock()
_programs: weakref.WeakSet[CachedJit] = weakref.WeakSet()


class _NotCachedError(Exception):
    """Arguments that a key does not describe."""


def _folder() -> Path | None:
    """Folder of the executables; None: JAX alone caches."""
    return _cpu_folder() if compilation_cache.keeps_programs else None


@functools.cache
def _cpu_folder() -> Path | None:
    on_one_cpu = jax.default_backend() == "cpu" and jax.device_count() == 1
    names = "jax_enable_compilation_cache", "jax_compilation_cache_dir"
    enabled, folder = (getattr(jax.config, name) for name in names)
    return Path(folder) / "programs" if enabled and folder and on_one_cpu else None


def _is_settled() -> bool:
    """False if the text of the package may differ from what this process runs."""
    edited = max(file.stat().st_mtime for file in _source_files())
    return edited < _STARTED - _SETTLED_S


def quick_jit(function: Callable[..., Any], **options: Any) -> Any:
    """`jax.jit`, compiled `QUICKLY` on a CPU unless XLA_FLAGS says how."""
    chosen = "xla_backend_optimization_level" in os.environ.get("XLA_FLAGS", "")
    quick = jax.default_backend() == "cpu" and not chosen
    return jax.jit(function, compiler_options=QUICKLY if quick else None, **options)


class CachedJit:
    """`jax.jit` whose executables are cached; static arguments are given by keyword.

    Programs must not call the host (`jax.pure_callback`), and the function must not close over
    variables.
    """

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        self._function, self._options = function, options
        self._name = f"{function.__module__}.{function.__qualname__}"
        self._loaded: dict[Any, Callable[..., Any]] = {}
        functools.update_wrapper(self, function)
        _programs.add(self)

    @functools.cached_property
    def jitted(self) -> Any:
        """The function under `jax.jit`, without the cache."""
        return quick_jit(self._function, **self._options)

    def __call__(self, *args: Any, **static: Any) -> Any:
        """Call the function, compiled."""
        return self.program(*args, **static)(*args)

    def program(self, *args: Any, **static: Any) -> Callable[..., Any]:
        """The program for arguments of these types, to call with `args` alone."""
        if (folder := _folder()) is None:
            return functools.partial(self.jitted, **static)
        leaves, structure = jax.tree.flatten(args)
        types = tuple(map(_type_of, leaves))
        place = structure, types, tuple(sorted(static.items()))
        if place not in self._loaded:
            try:
                if not _is_settled():
                    raise _NotCachedError
                words = [_describe_tree(structure), types, _describe(static), _settings()]
                self._loaded[place] = self._load(folder, words, args, static)
            except _NotCachedError:
                self._loaded[place] = functools.partial(self.jitted, **static)
        return self._loaded[place]

    def _load(
        self, folder: Path, words: list[Any], args: Any, static: dict[str, Any]
    ) -> Callable[..., Any]:
        """Read the executable, or compile and write it.

        One file, named after the source code, has the hash of the lowered program and the structure
        of its results. The file of that hash has the executable, which other source may share.
        """

        @functools.wraps(self._function)
        def function(*args: Any, **static: Any) -> Any:
            return self._function(*args, **static)

        def lower() -> Any:
            # again: the program of an earlier call may come from JAX's cache (`_without_jax_cache`)
            return quick_jit(function, **self._options).lower(*args, **static)

        lowered = None
        index = folder / _hash(package_hash(), self._name, words)
        if (known := _read(index)) is None:
            lowered = lower()
            known = _hash(lowered.as_text(), words), lowered.out_tree
            _write(index, known)
        program, results = known
        if (executable := _read(folder / program)) is not None:
            structure = jax.tree.structure((args, {}))
            with contextlib.suppress(Exception):  # of another build of jaxlib: compiled again
                return serialize_executable.deserialize_and_load(executable, structure, results)
        lowered = lowered or lower()
        with _without_jax_cache():
            compiled = lowered.compile()
        _write(folder / program, serialize_executable.serialize(compiled)[0])
        return compiled


def cached_shapes(function: Callable[..., Any], *static: Any) -> Any:
    """`jax.eval_shape` of a function of static arguments, cached with the programs."""

    def trace() -> Any:
        return jax.eval_shape(functools.partial(function, *static))

    if (folder := _folder()) is None or not _is_settled():
        return trace()
    try:
        words = [f"{function.__module__}.{function.__qualname__}", _describe(static)]
    except _NotCachedError:
        return trace()
    file = folder / _hash(package_hash(), _settings(), *words)
    if (shapes := _read(file)) is None:
        _write(file, shapes := trace())
    return shapes


@contextlib.contextmanager
def _without_jax_cache() -> Iterator[None]:
    """An executable that JAX has read from its cache loses its functions when it is serialised."""
    with _LOCK:
        jax.config.update("jax_enable_compilation_cache", False)
        jax_cache.reset_cache()
        try:
            yield
        finally:
            jax.config.update("jax_enable_compilation_cache", True)
            jax_cache.reset_cache()


def _read(path: Path) -> Any:
    """Content of `_write`; None if it is missing or damaged."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if hashlib.sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    try:
        return pickle.loads(data[_DIGEST:])
    except Exception:  # written by other versions of the libraries
        return None


def _write(path: Path, value: Any) -> None:
    stored = pickle.dumps(value)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, hashlib.sha256(stored).digest() + stored)
        _evict(path.parent)


def free_programs() -> None:
    """Free the executables of this process."""
    for program in _programs:
        program._loaded.clear()


compilation_cache.also_freed.append(free_programs)


def _evict(folder: Path) -> None:
    files = [(file, file.stat()) for file in folder.iterdir()]
    size = sum(stat.st_size for _, stat in files)
    for file, stat in sorted(files, key=lambda entry: entry[1].st_mtime):
        if size > MAX_BYTES:
            file.unlink()
            size -= stat.st_size


def _hash(*words: Any) -> str:
    return hashlib.sha256(canonical_json(words)).hexdigest()


@functools.cache
def _source_files() -> list[Path]:
    return sorted(file for file in _PACKAGE.rglob("*") if file.suffix in (".py", ".json"))


@functools.cache
def package_hash() -> str:
    """Hash of the package's code."""
    total = hashlib.sha256()
    for file in _source_files():
        total.update(f"{file.relative_to(_PACKAGE)} {file.stat().st_size}\n".encode())
        total.update(file.read_bytes())
    return total.hexdigest()


@functools.cache
def _settings() -> str:
    """Hash of everything outside the package that executables depend on."""
    settings = {
        name: str(getattr(jax.config, name, value))
        for name, value in sorted(jax.config.values.items())
        if "cache" not in name  # a copied folder stays valid
    }
    variables = [os.environ.get(name) for name in ("XLA_FLAGS", "NPROC", "PJRT_NPROC")]
    versions = [module.__version__ for module in (flax, jax, jaxlib, np)]
    versions.append(platform.python_version())
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return _hash(settings, variables, versions, cores, cpu_fingerprint())


def _type_of(leaf: Any) -> tuple[Any, ...]:
    if isinstance(leaf, (bool, int, float)):
        return (type(leaf).__name__,)
    return leaf.shape, str(leaf.dtype), getattr(leaf, "weak_type", False)


def _describe_tree(tree: Any) -> Any:
    """JSON-ready description of a tree's structure."""
    node = tree.node_data()
    if node is None:
        return "leaf"
    kind, data = node
    return [_class(kind), _describe(data), [_describe_tree(child) for child in tree.children()]]


def _describe(value: Any) -> Any:
    """JSON-ready description of a static value, in which all that equality compares enters."""
    if type(value) in (type(None), bool, int, str):
        return [type(value).__name__, value]
    if type(value) is float:
        return ["float", value.hex()]
    if isinstance(value, (tuple, list)):
        return [_class(type(value)), [_describe(item) for item in value]]
    if type(value) is dict:
        return ["dict", [[_describe(key), _describe(item)] for key, item in value.items()]]
    if isinstance(value, type):
        return _class(value)
    if dataclasses.is_dataclass(value):
        fields = [field.name for field in dataclasses.fields(value) if field.compare]
        return [_class(type(value)), [[name, _describe(getattr(value, name))] for name in fields]]
    raise _NotCachedError


def _class(kind: type) -> str:
    if kind.__module__ != "builtins" and not kind.__module__.startswith("hanabi_rl."):
        raise _NotCachedError
    return f"{kind.__module__}.{kind.__qualname__}"
