"""Uploads to the Hugging Face hub, with the login of its own tools."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lambda_keras


def check_login() -> str:
    """Returns the name of the user that is logged in.

    Raises:
        ValueError: If there is none, or the hub cannot be reached.
    """
    with _telling_what_is_wrong("expected a login to the Hugging Face hub (hf auth login)"):
        return str(_api().whoami()["name"])


def upload(folder: Path, repository: str, private: bool) -> str:
    """Uploads a folder as one commit, into a new repository if there is none.

    Args:
        folder: What `zoo.publish.folder.write` wrote.
        repository: `"owner/name"`.
        private: Whether a new repository is for its owner alone.

    Returns:
        Address of the repository's page.

    Raises:
        ValueError: If the hub refuses it, or cannot be reached.
    """
    from huggingface_hub import CommitOperationAdd

    api = _api()
    added = [
        CommitOperationAdd(path.relative_to(folder).as_posix(), path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    with _telling_what_is_wrong(f"could not upload to {repository}"):
        page = api.create_repo(repository, private=private, exist_ok=True)
        # Not `upload_folder`, which may make several commits.
        api.create_commit(repository, added, commit_message="Publish a network")
    return str(page)


def _api() -> Any:
    from huggingface_hub import HfApi

    return HfApi(library_name="lambda_keras", library_version=lambda_keras.__version__)


@contextmanager
def _telling_what_is_wrong(what: str) -> Iterator[None]:
    """Reports HTTP errors in one line: each library under huggingface_hub has its own."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{what}: {reason}") from error
