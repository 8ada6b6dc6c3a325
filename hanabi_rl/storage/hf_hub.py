"""The Hugging Face Hub: the files of a repository listed, fetched into its cache, and put there."""

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
    """The Hub's client without its warnings, of which each of its retries is several lines: our
    errors say once what is wrong."""
    from huggingface_hub.utils import logging  # slow to import, as all of the library

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
    """Fetches one file of a repository on the Hub into the folder `dest`, or into the Hub's own
    cache, where it is found again without a connection.

    Args:
        repository: OWNER/NAME.
        name: the file's path in it.
        kind: of repository.
        revision: a branch, a tag or a commit; None is the main branch.
        dest: a folder.
        then: what to do with the file once it was fetched by hand, for the error.

    Raises:
        ValueError: there is no such repository, revision or file.
        PermissionError: the repository is gated.
        ConnectionError: it cannot be had: what was tried, and how to fetch it by hand.
    """
    # Slow to import, and only these functions need it.
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
    except Exception as error:  # the hub raises a dozen types of its own and of its HTTP client's
        page = _page(repository, kind)
        if refused := _refusal(error, repository, kind, revision):
            raise refused from error
        if isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError):
            there = ", ".join(list_files(repository, kind=kind, revision=revision)) or "none"
            raise ValueError(f"{page}: expected a file {name}; its files: {there}") from error
        command = _by_hand(f"{repository} {name}", kind, revision)
        raise ConnectionError(
            f"could not fetch {name} from {page} ({type(error).__name__}: {error}). Fetch it "
            "where there is a "
            f"connection, from {page}/tree/{revision or 'main'} or with '{command} --local-dir "
            f"{dest or '.'}', and {then}"
        ) from error


@_quiet()
def list_files(
    repository: str, *, kind: Kind = "model", revision: str | None = None
) -> tuple[str, ...]:
    """The paths of a repository's files, sorted; without a connection, of those in the cache.

    Raises:
        ValueError, PermissionError: as `download_file`.
        ConnectionError: there is no connection, and nothing of it is in the cache.
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
            f"({type(error).__name__}: {error}), and none of it is in the Hub's cache on this "
            f"machine; fetch it where there is a connection: "
            f"'{_by_hand(repository, kind, revision)}'"
        ) from error


def check_logged_in() -> None:
    """Raises PermissionError where no token of the Hub is on this machine."""
    from huggingface_hub import get_token

    if get_token() is None:
        raise PermissionError(f"--push: no token of the Hugging Face Hub here: {LOG_IN}")


@_quiet()
def upload_files(
    repository: str, files: Mapping[str, bytes | Edit], *, private: bool, message: str
) -> str:
    """Commits files to a repository of models, which is made where there is none.

    Args:
        repository: OWNER/NAME.
        files: path in the repository -> content, or a function of the content that is there.
        private: make it for its owner alone; one that is there must be so already.
        message: of the commit.

    Returns:
        The address of the commit.

    Raises:
        ValueError: the repository is there and public, and `private` was asked for; or from a
            function in `files`. Nothing is written.
        PermissionError: nobody is logged in, or may not write there.
        ConnectionError: the Hub cannot be reached.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    api, page = HfApi(), _page(repository, "model")
    with _writing(repository):
        api.create_repo(repository, private=private, exist_ok=True)
        public = private and not api.model_info(repository).private
    if public:
        raise ValueError(
            f"expected a private repository, got {page}, which is public: nothing was written"
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
    """Turns what the Hub's client raises into the errors of `upload_files`."""
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError

    page = _page(repository, "model")
    try:
        yield
    except Exception as error:
        status = error.response.status_code if isinstance(error, HfHubHTTPError) else None
        if isinstance(error, LocalTokenNotFoundError) or status in (401, 403):
            raise PermissionError(
                f"could not write to {page} ({error}): {LOG_IN}, with a token that may write there"
            ) from error
        if refused := _refusal(error, repository, "model"):
            raise refused from error
        raise ConnectionError(
            f"could not write to {page} ({type(error).__name__}: {error})"
        ) from error


def _current(api: Any, repository: str, path: str) -> bytes | None:
    """The newest content of a file in a repository of models; None if it is missing."""
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        return Path(api.hf_hub_download(repository, path, force_download=True)).read_bytes()
    except LocalEntryNotFoundError:  # an EntryNotFoundError, but the Hub was not reached
        raise
    except EntryNotFoundError:
        return None


def _refusal(
    error: Exception, repository: str, kind: Kind, revision: str | None = None
) -> Exception | None:
    """The error to raise where the Hub answered, and the answer was no; else None."""
    from huggingface_hub import errors

    page = _page(repository, kind)
    if isinstance(error, errors.GatedRepoError):
        return PermissionError(f"{page} is gated: ask for access on that page, then {LOG_IN}")
    if isinstance(error, errors.RepositoryNotFoundError):
        return ValueError(
            f"expected a repository that exists and that you may read, got {page}; if it is "
            f"private, {LOG_IN}"
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return ValueError(f"{page}: expected a branch, a tag or a commit of it, got {revision!r}")
    if isinstance(error, errors.HFValidationError):
        return ValueError(f"expected a repository OWNER/NAME, got {repository!r}")
    return None


def _cached_files(repository: str, kind: Kind, revision: str) -> tuple[str, ...]:
    """What the cache has of a revision: the paths of its files, sorted."""
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


def _by_hand(what: str, kind: Kind, revision: str | None) -> str:
    return f"hf download {what} --repo-type {kind}" + (
        f" --revision {revision}" if revision else ""
    )
