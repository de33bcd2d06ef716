"""Uploads to the Hugging Face Hub, with the login of its own tools."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lambda_keras


def check_login() -> str:
    """Returns the name of the logged-in user.

    Raises:
        ValueError: If nobody is logged in, or the hub cannot be reached.
    """
    with _telling_what_is_wrong("expected a login to the Hugging Face hub (hf auth login)"):
        return str(_api().whoami()["name"])


def upload(folder: Path, repository: str, private: bool) -> str:
    """Uploads a folder as one commit, into a new repository if there is none.

    Args:
        folder: Folder written by `zoo.publish.folder.write`.
        repository: Name of the repository, `"owner/name"`.
        private: Whether a new repository is private.

    Returns:
        URL of the repository.

    Raises:
        ValueError: If the hub refuses the upload, or cannot be reached.
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
        # `upload_folder` may make several commits.
        api.create_commit(repository, added, commit_message="Publish a network")
    return str(page)


def _api() -> Any:
    from huggingface_hub import HfApi

    return HfApi(library_name="lambda_keras", library_version=lambda_keras.__version__)


@contextmanager
def _telling_what_is_wrong(what: str) -> Iterator[None]:
    """Reports HTTP errors of all libraries under huggingface_hub in one line."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{what}: {reason}") from error
