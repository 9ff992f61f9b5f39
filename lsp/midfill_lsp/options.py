"""What an editor may set: the shape of the wire.

Owns the names of the keys and what a value of each must look like. Everything is optional here;
`settings` holds the resolved values and says what each means. A key that is unknown or has a value
that does not fit becomes a problem that names it, and the rest still counts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from midfill_engine.protocol import QUALITIES, Quality

MAX_DEADLINE_MS: Final = 120_000
MAX_TOKENS: Final = 512
MAX_FILE_BYTES: Final = 50_000_000


@dataclass(frozen=True, slots=True)
class Options:
    """What was set, by name of the field it is resolved to. None: not set."""

    automatic_quality: Quality | None = None
    invoked_quality: Quality | None = None
    automatic_deadline_ms: int | None = None
    invoked_deadline_ms: int | None = None
    min_confidence: float | None = None
    max_file_bytes: int | None = None
    max_tokens: int | None = None
    model: str | None = None
    drafts: bool | None = None
    stats: bool | None = None

    def over(self, base: "Options") -> "Options":
        """These options where set, `base`'s elsewhere."""
        names = [field.name for field in fields(Options)]
        mine = {name: getattr(self, name) for name in names}
        return Options(**{n: getattr(base, n) if v is None else v for n, v in mine.items()})


def parse_options(raw: object) -> tuple[Options, tuple[str, ...]]:
    """The options in a JSON value, and what is wrong with it: one line for each key."""
    if raw is None:
        return Options(), ()
    if not isinstance(raw, Mapping):
        return Options(), (f"the settings must be an object, not {_shown(raw)}",)
    found: dict[str, Any] = {}
    problems: list[str] = []
    for key, value in _flat(raw):
        known = KEYS.get(key)
        if known is None:
            problems.append(f"`{key}` is not a setting")
        elif value is None:
            continue  # editors write null for what is not set
        elif known.fits(value):
            found.update(dict.fromkeys(known.fields, value))
        else:
            problems.append(f"`{key}` must be {known.what}, not {_shown(value)}")
    return Options(**found), tuple(problems)


@dataclass(frozen=True, slots=True)
class _Key:
    what: str
    fits: Callable[[Any], bool]
    fields: tuple[str, ...]


def _flat(raw: Mapping[Any, Any]) -> list[tuple[str, Any]]:
    """Keys and values, with `quality`'s two halves under names of their own after the whole."""
    pairs: list[tuple[str, Any]] = []
    for key, value in raw.items():
        if key == "quality" and isinstance(value, Mapping):
            pairs += [(f"quality.{half}", inner) for half, inner in value.items()]
        else:
            pairs.append((str(key), value))
    return pairs


def _integer(low: int, high: int, *fields: str) -> _Key:
    def fits(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high

    return _Key(f"a whole number from {low} to {high}", fits, fields)


def _quality(*fields: str) -> _Key:
    what = " or ".join(f'"{quality}"' for quality in QUALITIES)
    return _Key(what, lambda value: isinstance(value, str) and value in QUALITIES, fields)


def _flag(field: str) -> _Key:
    return _Key("true or false", lambda value: isinstance(value, bool), (field,))


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


KEYS: Final[dict[str, _Key]] = {
    "quality": _quality("automatic_quality", "invoked_quality"),
    "quality.automatic": _quality("automatic_quality"),
    "quality.invoked": _quality("invoked_quality"),
    "automaticDeadlineMs": _integer(10, MAX_DEADLINE_MS, "automatic_deadline_ms"),
    "invokedDeadlineMs": _integer(10, MAX_DEADLINE_MS, "invoked_deadline_ms"),
    "minConfidence": _Key("a number from 0 to 1", _is_share, ("min_confidence",)),
    "maxFileBytes": _integer(0, MAX_FILE_BYTES, "max_file_bytes"),
    "maxTokens": _integer(1, MAX_TOKENS, "max_tokens"),
    "model": _Key(
        'a name such as "embedded" or the path of a directory',
        lambda value: isinstance(value, str) and bool(value.strip()),
        ("model",),
    ),
    "drafts": _flag("drafts"),
    "stats": _flag("stats"),
}


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "…"
