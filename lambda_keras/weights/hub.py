"""Files of the Hugging Face Hub, or of other addresses, checked before they are read.

The Hub records a checksum for every file, its ETag. huggingface_hub names the file in its cache
after it, but does not verify it.
"""

import hashlib
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

PREFIX = "hf://"
# Files that `hf://owner/repo` stands for: the first that the repository has.
FILENAMES = ("model.safetensors", "model.weights.h5")
POINTER = b"version https://git-lfs.github.com/spec/"  # begins a pointer of Git LFS
_NAME = r"\w(?:[\w.-]{,94}\w)?"
_ADDRESS = re.compile(rf"hf://({_NAME}/{_NAME})(?:@(\S+))?", re.ASCII)
_FORBIDDEN = re.compile(r"\.\.|//[^@]*--|\.git(@|$)")  # Forbidden by git and by the Hub.


def why_pointer(path: str | os.PathLike) -> str:
    """Returns an instruction if a file is a Git LFS pointer, else an empty string."""
    with suppress(OSError), open(path, "rb") as file:
        if file.read(len(POINTER)) == POINTER:
            return "a Git LFS pointer: run git lfs pull"
    return ""


def fetch_address(address: str) -> Path:
    """Fetches the first of `FILENAMES` of `"hf://owner/repo"` or `"hf://owner/repo@revision"`."""
    repository, revision = parse_address(address)
    return fetch(repository, FILENAMES, revision)


def parse_address(address: str) -> tuple[str, str]:
    """Repository and revision of `"hf://owner/repo"` or `"hf://owner/repo@revision"`."""
    match = _ADDRESS.fullmatch(address)
    if match is None or _FORBIDDEN.search(address):
        raise ValueError(
            "expected a repository of the Hugging Face hub, 'hf://owner/repo' or "
            f"'hf://owner/repo@revision'. Received: {address[:200]!r}"
        )
    return match[1], match[2] or "main"


def fetch(
    repository: str,
    filenames: Sequence[str],
    revision: str = "main",
    expected_sha256: str | None = None,
) -> Path:
    """Downloads a file of the Hub unless it is cached, and verifies its checksum.

    The checksum is the expected one if passed, else the Hub's record; without network, the record
    from the time of the download. Of several filenames, the first that the repository has counts.

    Raises:
        ValueError: If there is no such repository, revision or file, or the file is damaged.
        FileNotFoundError: If the Hub cannot be reached, and the file is not cached.
    """
    # Imported here, because it is slow, and most models need no download.
    from huggingface_hub import errors, get_hf_file_metadata, hf_hub_download, hf_hub_url

    place = f"{repository}@{revision}"
    unreachable = None
    for filename in filenames:
        url = hf_hub_url(repository, filename, revision=revision)
        record = None
        try:
            record = get_hf_file_metadata(url)
        except errors.EntryNotFoundError:
            continue
        except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
            raise ValueError(
                "expected a repository and revision of the Hugging Face hub that exist, and that "
                f"you may read. Received: {place}"
            ) from error
        except Exception as error:
            # No network, or the hub is down: the HTTP libraries under huggingface_hub differ
            # between its versions, and each has errors of its own.
            unreachable = error
        try:
            path = hf_hub_download(
                repository, filename, revision=revision, local_files_only=record is None
            )
        except errors.LocalEntryNotFoundError:
            continue
        except Exception as error:
            unreachable = error
            break
        _check(Path(path), record, expected_sha256)
        return Path(path)
    if unreachable is not None:
        reason = (str(unreachable) or type(unreachable).__name__).splitlines()[0]
        raise FileNotFoundError(
            f"could not download {' or '.join(filenames)} of {place} from the Hugging Face hub, "
            f"and no copy is cached: {reason}. It is at "
            f"{hf_hub_url(repository, filenames[0], revision=revision)}"
        ) from unreachable
    raise ValueError(
        f"expected a repository with {' or '.join(filenames)}. Received: {place}, which has none"
    )


def fetch_url(address: str, checksum: str | None) -> Path:
    """Downloads `https://...` with progress, unless Keras' folder for models has it intact."""
    import keras

    try:
        path = keras.utils.get_file(origin=address, file_hash=checksum, cache_subdir="models")
    except ValueError as error:
        raise ValueError(
            f"damaged file: expected checksum {checksum}, as published. Received: {address}"
        ) from error
    except Exception as error:  # Keras raises no narrower one.
        reason = str(error).rpartition(" -- ")[2]  # Keras names the address twice
        raise FileNotFoundError(f"could not download {address}: {reason}") from error
    return Path(path)


def _check(path: Path, record, expected_sha256: str | None) -> None:
    """Compares a cached file with its known checksum, or else with the Hub's record."""
    if expected_sha256 is not None:
        checksum, size = expected_sha256, None
    elif record is not None:
        checksum, size = record.etag or "", record.size
    else:
        # The cache links the file's name to a file that is named by its checksum.
        checksum = Path(os.readlink(path)).name if path.is_symlink() else ""
        size = None
    if not re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", checksum):
        raise ValueError(
            f"expected a checksum to compare {str(path)!r} with, which the Hugging Face hub did "
            "not give. Load again with a network connection, or give the path of the file itself"
        )
    received_size = path.stat().st_size
    if len(checksum) == 64:
        received = sha256(path)
    else:  # Git's hash, which the Hub records for small files
        content = b"blob %d\0" % received_size + path.read_bytes()
        received = hashlib.sha1(content, usedforsecurity=False).hexdigest()
    if size not in (None, received_size) or received != checksum:
        raise ValueError(
            f"damaged file: expected {'' if size is None else f'{size} bytes with '}checksum "
            f"{checksum}, as published. Received: {str(path.resolve())!r}, "
            f"{received_size} bytes with checksum {received}. Delete it and load again to download "
            "it anew"
        )


def sha256(path: Path) -> str:
    """SHA-256 of a file, which the Hub records for all but small files."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
