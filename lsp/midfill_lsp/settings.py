"""The resolved settings: every value known, every default in one place.

Owns the defaults. Knows nothing of the wire, which is `options`' concern.

| key                   | default    | meaning                                                     |
|-----------------------|------------|-------------------------------------------------------------|
| `quality`             |            | `"fast"`, `"balanced"` or `"best"`: how much work a fill    |
|                       |            | may take. A string sets both kinds, an object               |
|                       |            | `{"automatic": …, "invoked": …}` each of them.              |
| `quality.automatic`   | `fast`     | for completions that come while typing                      |
| `quality.invoked`     | `balanced` | for completions asked for, and for filling a selection      |
| `automaticDeadlineMs` | 700        | then the best draft so far is shown, while typing           |
| `invokedDeadlineMs`   | 4000       | the same when asked for, and for a selection                |
| `minConfidence`       |            | while typing, fills the model is less sure of are not shown |
|                       |            | (unset: as the model was calibrated)                        |
| `maxFileBytes`        | 2000000    | midfill leaves larger files alone, and says so once. A file |
|                       |            | already open is measured again when it is opened again.     |
| `maxTokens`           | 128        | upper bound of a fill's length                              |
| `model`               | `embedded` | a fetched model's name, or the path of a model's directory  |
| `drafts`              | false      | send `midfill/draft` notifications while a fill sharpens    |
| `stats`               | false      | send a `midfill/stats` notification when a fill is done     |
"""

from dataclasses import dataclass

from midfill_engine.protocol import Quality
from midfill_lsp.options import Options


@dataclass(frozen=True, slots=True)
class Effort:
    """What one fill may cost."""

    quality: Quality
    deadline_ms: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Settings:
    """What the server goes by. See the table above."""

    automatic_quality: Quality = "fast"
    invoked_quality: Quality = "balanced"
    automatic_deadline_ms: int = 700
    invoked_deadline_ms: int = 4000
    min_confidence: float | None = None
    max_file_bytes: int = 2_000_000
    max_tokens: int = 128
    model: str = "embedded"
    drafts: bool = False
    stats: bool = False

    @property
    def automatic(self) -> Effort:
        """For completions nobody asked for."""
        return Effort(self.automatic_quality, self.automatic_deadline_ms, self.max_tokens)

    @property
    def invoked(self) -> Effort:
        """For fills somebody waits for."""
        return Effort(self.invoked_quality, self.invoked_deadline_ms, self.max_tokens)


DEFAULTS = Settings()


def resolve(options: Options) -> Settings:
    """The settings that options come to."""
    return Settings(
        **{
            name: getattr(DEFAULTS, name)
            if getattr(options, name) is None
            else getattr(options, name)
            for name in Options.__slots__
        }
    )
