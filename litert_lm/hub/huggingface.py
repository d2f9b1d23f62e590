"""Repositories on the Hugging Face Hub, through the package huggingface_hub.

That package reads HF_HOME, HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE, keeps its own
cache, resumes, and shows its own progress bars on a terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from litert_lm.errors import (
    DownloadError,
    InvalidArgumentError,
    LiteRtLmError,
    MissingExtraError,
    ModelFileError,
    ModelNotFoundError,
)
from litert_lm.hub.sources import HubSource

__all__ = ["HubFiles", "fetch_from_hub"]

#: Kinds of single-file models, the one we would rather have first.
_SINGLE_FILES = (".litertlm", ".task", ".gguf")
_FOLDER_FILES = {
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "model.safetensors.index.json",
}


@dataclass(frozen=True)
class HubFiles:
    """What was fetched: a file or a folder in the Hub's cache, and its licence."""

    path: Path
    licence: str | None


def fetch_from_hub(source: HubSource) -> HubFiles:
    """Download the file `source` names, else the repository's only model.

    Raises:
        MissingExtraError: huggingface_hub is not installed.
        ModelNotFoundError: no such repository or file, or no access to it.
        InvalidArgumentError: the repository holds several models; names them.
        ModelFileError: the repository holds no model of a known kind.
        DownloadError: the Hub cannot be reached.
    """
    hub = _hub()
    with _hub_errors(source):
        if source.file is not None:
            path = hub.hf_hub_download(source.repo, source.file)
            return HubFiles(Path(path), None)
        info = hub.HfApi().model_info(source.repo)
        names = [entry.rfilename for entry in info.siblings or []]
        licence = getattr(info.card_data, "license", None) if info.card_data else None

        def fetch(name: str) -> Path:
            return Path(hub.hf_hub_download(source.repo, name, revision=info.sha))

        path = _fetch_model(source, names, fetch)
        return HubFiles(path, licence if isinstance(licence, str) else None)


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise MissingExtraError.of("An hf: source", "huggingface_hub", "hub") from error
    return huggingface_hub


def _fetch_model(
    source: HubSource, names: list[str], fetch: Callable[[str], Path]
) -> Path:
    for kind in _SINGLE_FILES:
        found = sorted(name for name in names if name.endswith(kind))
        if len(found) == 1:
            return fetch(found[0])
        if found:
            choices = ", ".join(f"{source}/{name}" for name in found)
            raise InvalidArgumentError(f"{source} holds several models: {choices}.")
    wanted = [name for name in names if _is_folder_file(name)]
    if "config.json" not in wanted or not any(
        name.endswith(".safetensors") for name in wanted
    ):
        raise ModelFileError(
            f"{source} holds no .litertlm, .task or .gguf file, nor config.json with"
            " .safetensors."
        )
    paths = [fetch(name) for name in wanted]
    return paths[0].parent


def _is_folder_file(name: str) -> bool:
    """Whether a converter of safetensors reads this file at the repository's top."""
    at_top = len(PurePosixPath(name).parts) == 1
    return at_top and (name in _FOLDER_FILES or name.endswith(".safetensors"))


@contextmanager
def _hub_errors(source: HubSource) -> Iterator[None]:
    from huggingface_hub import errors

    try:
        yield
    except LiteRtLmError:
        raise
    except errors.GatedRepoError as error:
        raise ModelNotFoundError(
            f"{source} asks for its terms to be accepted: do that on its page, then set"
            " HF_TOKEN to a token of the account."
        ) from error
    except errors.LocalEntryNotFoundError as error:
        raise DownloadError(
            f"The Hub cannot be reached, and {source} is not in its cache: {error}."
        ) from error
    except (errors.RepositoryNotFoundError, errors.EntryNotFoundError) as error:
        raise ModelNotFoundError(
            f"The Hub has no {source}, or it is private and HF_TOKEN does not open it."
        ) from error
    except Exception as error:  # its HTTP library's errors have no common base
        raise DownloadError(f"Cannot fetch {source}: {_first_line(error)}.") from error


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(".")
