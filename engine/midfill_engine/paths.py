"""Where things of ours lie on this machine: the cache and the worker's runtime directory.

Owns names of directories, creates none on import. Knows nothing of what is put there.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

import platformdirs

# HumanEval's holes: what is evaluated on, and kept out of what is learnt from.
PROBLEMS: Final = Path(__file__).parent / "problems" / "humaneval_single_line.jsonl.gz"


def cache_dir() -> Path:
    """What is stored for the user: `$MIDFILL_CACHE_DIR`, else the platform's user cache."""
    chosen = os.environ.get("MIDFILL_CACHE_DIR")
    return Path(chosen or platformdirs.user_cache_dir("midfill", False)).absolute()


def runtime_dir() -> Path:
    """The directory of sockets and locks: `$MIDFILL_RUNTIME_DIR`, else one of the user's own."""
    chosen = os.environ.get("MIDFILL_RUNTIME_DIR")
    if chosen:
        return Path(chosen).absolute()
    session = os.environ.get("XDG_RUNTIME_DIR")
    if session:
        return Path(session) / "midfill"
    return Path(tempfile.gettempdir()) / f"midfill-{os.getuid()}"


def log_dir() -> Path:
    """The directory of the worker's logs, beside the cache so that a reboot does not take it."""
    return cache_dir() / "logs"


def packages_dir() -> Path:
    """The directory of the packages that `midfill eval` cuts holes into."""
    return cache_dir() / "packages"


def absolute_model(model: str) -> str:
    """A name as it is; a path such that it means the same in another process."""
    return str(Path(model).expanduser().absolute()) if _is_path(model) else model


def model_dir(model: str) -> Path:
    """The directory of a model: the path itself where it names one, else its place in the cache."""
    return Path(absolute_model(model)) if _is_path(model) else cache_dir() / "models" / model


def adapter_path(model: str) -> Path:
    """A model's adapter: ours is part of the package, another's lies beside its base."""
    if _is_path(model):
        return model_dir(model) / "adapter.safetensors"
    return Path(__file__).parent / "adapters" / f"{model}.safetensors"


def _is_path(model: str) -> bool:
    return os.sep in model or model in (".", "..") or bool(os.altsep and os.altsep in model)
