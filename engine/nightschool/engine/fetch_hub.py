"""A repository of the Hugging Face hub. Part of `fetch.py`: uses the network, through huggingface_hub.

The hub's client resumes a download by itself; its own token and settings are honoured.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nightschool.disk.errors import Problem

if TYPE_CHECKING:
    from nightschool.engine.fetch import Progress

WANTED = ["*.safetensors", "*.json", "*.jinja", "merges.txt", "vocab.txt", "tokenizer.model", "LICENSE*"]
UNWANTED = ["original/*", "consolidated*", "onnx/*"]


def commit_of(repository: str, revision: str) -> str:
    """The commit that a revision means now: a branch moves, a commit does not."""
    import huggingface_hub

    with _explained(repository, revision):
        commit = huggingface_hub.HfApi().model_info(repository, revision=revision).sha
    if commit is None:
        raise Problem(f"the hub does not say which commit {repository}@{revision} is", "name a commit")
    return str(commit)


def fetch_repository(repository: str, commit: str, folder: Path, progress: Progress) -> None:
    """Put what a backend needs of the repository, at this commit, into `folder`."""
    import huggingface_hub
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()
    wanted = {
        "revision": commit,
        "allow_patterns": WANTED,
        "ignore_patterns": UNWANTED,
        "local_dir": folder,
    }
    with _explained(repository, commit):
        files = huggingface_hub.snapshot_download(repository, dry_run=True, **wanted)
        with _watched(folder, sum(file.file_size for file in files), f"fetching {repository}", progress):
            huggingface_hub.snapshot_download(repository, **wanted)
    shutil.rmtree(folder / ".cache", ignore_errors=True)


@contextmanager
def _explained(repository: str, revision: str) -> Iterator[None]:
    """The hub's errors as Problems."""
    from huggingface_hub import errors

    advice = f"see https://huggingface.co/{repository}"
    try:
        yield
    except errors.GatedRepoError:
        raise Problem(f"{repository} asks for its licence to be accepted", f"{advice}, then set HF_TOKEN") from None
    except errors.RevisionNotFoundError:
        raise Problem(f"{repository} has no revision {revision!r}", advice) from None
    except errors.RepositoryNotFoundError:
        raise Problem(f"the hub has no repository {repository}, or it is private", f"{advice}; set HF_TOKEN") from None
    except errors.OfflineModeIsEnabled:
        raise Problem("HF_HUB_OFFLINE forbids to use the hub", "unset it while you pull") from None
    except (errors.HTTPError, ConnectionError, TimeoutError) as error:
        told = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Problem(f"the hub could not be reached: {told}", "check the network, and pull again to go on") from None


@contextmanager
def _watched(folder: Path, total: int, step: str, progress: Progress) -> Iterator[None]:
    """Tell every second how many bytes are in the folder, while the hub's client fills it."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(1.0):
            progress(step, min(_size(folder), total), total)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
    progress(step, total, total)


def _size(folder: Path) -> int:
    """Bytes below the folder; files come and go meanwhile."""
    size = 0
    for path in folder.rglob("*"):
        try:
            size += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue
    return size
