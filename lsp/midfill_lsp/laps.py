"""How long the stages of one request take, by the server's clock."""

import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Laps:
    """Made when a request begins; each stage is noted when it ends."""

    ms: dict[str, float] = field(default_factory=dict)  # by the stage's name
    _since: float = field(default_factory=time.perf_counter)

    def end(self, stage: str) -> None:
        """The time since the stage before ended is this one's."""
        now = time.perf_counter()
        self.ms[stage] = 1000 * (now - self._since)
        self._since = now
