"""The version, as a constant: asking the installation for it costs 30 ms of every start."""

from typing import Final

VERSION: Final = "0.1.0"
