"""Hugging Face Hub: list, download and upload the files of a repository."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

Kind = Literal["dataset", "model"]
Edit = Callable[[bytes | None], bytes]
"""New content of a file from its current content, None if the file is missing."""
LOG_IN = "log in with `hf auth login`, or set HF_TOKEN"


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the Hub client's warnings, several lines per retry; errors here report the
    problem."""
    from huggingface_hub.utils import logging  # slow to import, like the whole library

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


@_quiet()
def download_file(
    repository: str,
    name: str,
    *,
    kind: Kind,
    revision: str | None = None,
    dest: str | Path | None = None,
    then: str,
) -> Path:
    """Download one file of a Hub repository into the folder `dest`, or into the Hub's cache.

    A cached file is found without a connection.

    Args:
        repository: OWNER/NAME.
        name: path of the file in the repository.
        kind: type of repository.
        revision: branch, tag or commit; None: main branch.
        dest: folder.
        then: what to do with a manually downloaded file, for the error.

    Raises:
        ValueError: the repository, revision or file does not exist.
        PermissionError: the repository is gated.
        ConnectionError: the download failed; the message has the manual steps.
    """
    # slow to import
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        return Path(
            hf_hub_download(
                repository,
                name,
                repo_type=kind,
                revision=revision,
                local_dir=None if dest is None else str(dest),
            )
        )
    # the client raises a dozen types, its own and those of its HTTP client
    except Exception as error:
        page = _page(repository, kind)
        if refused := _refusal(error, repository, kind, revision):
            raise refused from error
        if isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError):
            files = ", ".join(list_files(repository, kind=kind, revision=revision)) or "none"
            raise ValueError(f"{page}: expected a file {name}; its files: {files}") from error
        command = _download_command(f"{repository} {name}", kind, revision)
        raise ConnectionError(
            f"could not download {name} from {page} ({type(error).__name__}: {error}). Download it "
            f"with a connection, from {page}/tree/{revision or 'main'} or with '{command} "
            f"--local-dir {dest or '.'}', and {then}"
        ) from error


@_quiet()
def list_files(
    repository: str, *, kind: Kind = "model", revision: str | None = None
) -> tuple[str, ...]:
    """Paths of a repository's files, sorted; without a connection, those in the cache.

    Raises:
        ValueError, PermissionError: as `download_file`.
        ConnectionError: no connection, and none of the files is cached.
    """
    from huggingface_hub import HfApi

    try:
        return tuple(sorted(HfApi().list_repo_files(repository, repo_type=kind, revision=revision)))
    except Exception as error:
        if refused := _refusal(error, repository, kind, revision):
            raise refused from error
        if cached := _cached_files(repository, kind, revision or "main"):
            return cached
        raise ConnectionError(
            f"could not list the files of {_page(repository, kind)} "
            f"({type(error).__name__}: {error}), and this machine's Hub cache has none of them; "
            f"download it with a connection: '{_download_command(repository, kind, revision)}'"
        ) from error


def check_logged_in() -> None:
    """Raise PermissionError if this machine has no token for the Hub."""
    from huggingface_hub import get_token

    if get_token() is None:
        raise PermissionError(f"--push: no token for the Hugging Face Hub: {LOG_IN}")


@_quiet()
def upload_files(
    repository: str, files: Mapping[str, bytes | Edit], *, private: bool, message: str
) -> str:
    """Commit files to a model repository, created if missing; return the commit's URL.

    Args:
        repository: OWNER/NAME.
        files: path in the repository -> content, or a function of the current content.
        private: create a private repository; an existing one must be private.
        message: commit message.

    Raises:
        ValueError: `private`, but the repository is public; or raised by a function in `files`.
            Nothing is written.
        PermissionError: not logged in, or no write access.
        ConnectionError: the Hub cannot be reached.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    api, page = HfApi(), _page(repository, "model")
    with _writing(repository):
        api.create_repo(repository, private=private, exist_ok=True)
        public = private and not api.model_info(repository).private
    if public:
        raise ValueError(
            f"expected a private repository, got {page}, which is public; nothing was written"
        )
    operations = []
    for path, content in files.items():
        if not isinstance(content, bytes):
            with _writing(repository):
                current = _current(api, repository, path)
            content = content(current)
        operations.append(CommitOperationAdd(path, content))
    with _writing(repository):
        return api.create_commit(repository, operations, commit_message=message).commit_url


@contextmanager
def _writing(repository: str) -> Iterator[None]:
    """Convert the Hub client's errors to those of `upload_files`."""
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError

    page = _page(repository, "model")
    try:
        yield
    except Exception as error:
        status = error.response.status_code if isinstance(error, HfHubHTTPError) else None
        if isinstance(error, LocalTokenNotFoundError) or status in (401, 403):
            raise PermissionError(
                f"could not write to {page} ({error}): {LOG_IN}, with write access"
            ) from error
        if refused := _refusal(error, repository, "model"):
            raise refused from error
        raise ConnectionError(
            f"could not write to {page} ({type(error).__name__}: {error})"
        ) from error


def _current(api: Any, repository: str, path: str) -> bytes | None:
    """Newest content of a file in a model repository; None if it is missing."""
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        return Path(api.hf_hub_download(repository, path, force_download=True)).read_bytes()
    except LocalEntryNotFoundError:  # a subclass of EntryNotFoundError, but the Hub was not reached
        raise
    except EntryNotFoundError:
        return None


def _refusal(
    error: Exception, repository: str, kind: Kind, revision: str | None = None
) -> Exception | None:
    """Error for a request that the Hub refused; None for other errors."""
    from huggingface_hub import errors

    page = _page(repository, kind)
    if isinstance(error, errors.GatedRepoError):
        return PermissionError(f"{page} is gated: request access on that page, then {LOG_IN}")
    if isinstance(error, errors.RepositoryNotFoundError):
        return ValueError(
            f"expected an existing repository with read access, got {page}; if it is private, "
            f"{LOG_IN}"
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return ValueError(f"{page}: expected a branch, tag or commit of it, got {revision!r}")
    if isinstance(error, errors.HFValidationError):
        return ValueError(f"expected a repository OWNER/NAME, got {repository!r}")
    return None


def _cached_files(repository: str, kind: Kind, revision: str) -> tuple[str, ...]:
    """Sorted paths of the cached files of a revision."""
    from huggingface_hub import constants, scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        repositories = scan_cache_dir(constants.HF_HUB_CACHE).repos
    except CacheNotFound:
        return ()
    return tuple(
        sorted(
            file.file_path.relative_to(commit.snapshot_path).as_posix()
            for found in repositories
            if (found.repo_id, found.repo_type) == (repository, kind)
            for commit in found.revisions
            if revision in (commit.commit_hash, *commit.refs)
            for file in commit.files
        )
    )


def _page(repository: str, kind: Kind) -> str:
    return f"https://huggingface.co/{'datasets/' if kind == 'dataset' else ''}{repository}"


def _download_command(target: str, kind: Kind, revision: str | None) -> str:
    option = f" --revision {revision}" if revision else ""
    return f"hf download {target} --repo-type {kind}{option}"
