"""Which studies there are: those in this folder by name, a user's own by path. A name or path in, a Study out."""

from __future__ import annotations

from pathlib import Path

from profkit.errors import UsageError, nearest
from profkit.studies.declaration import Study
from profkit.studies.reading import read_study

_FOLDER = Path(__file__).parent
_ENDING = ".toml"


def study_names() -> list[str]:
    """The studies that come with profkit."""
    return sorted(path.stem for path in _FOLDER.glob(f"*{_ENDING}"))


def load_study(word: str, quick: bool = False) -> Study:
    """The study of this name, or in the file of this name: one that ends in .toml or has a slash is a file."""
    if word.endswith(_ENDING) or "/" in word:
        return read_study(_text(Path(word)), Path(word).stem, word, quick)
    if word not in study_names():
        raise UsageError(f"unknown study {word!r}; {nearest(word, study_names())}\n  a file of your own ends in .toml")
    return read_study(_text(_FOLDER / f"{word}{_ENDING}"), word, f"{word}{_ENDING}", quick)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not text in UTF-8: {error.reason} at byte {error.start}") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
