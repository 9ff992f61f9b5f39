"""Packages made on the spot, and a list of them."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
FOLDERS = {"engine/midfill_engine/worker": False, "infill/midfill_infill": True}


def tarball(files: Mapping[str, str | bytes], packed: str = "gz") -> bytes:
    """A tarball whose bytes depend on the files only."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    compress = {"gz": _gzip, "xz": lzma.compress, "bz2": bz2.compress}[packed]
    return compress(stream.getvalue())


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def entry(name: str, archive: bytes, /, **fields: Any) -> dict[str, Any]:
    """What a list says of a package with one archive."""
    given = {
        "registry": "pypi",
        "name": name,
        "version": "1",
        "licence": "MIT",
        "files": {f"{name}-1.tar.gz": hashlib.sha256(archive).hexdigest()},
        "validation": False,
    }
    return given | fields


def store(archives: Path, name: str, files: Mapping[str, str], /, **fields: Any) -> dict[str, Any]:
    """Put a package among the archives; what a list says of it."""
    archive = tarball(files)
    made = entry(name, archive, **fields)
    folder = archives / made["registry"]
    folder.mkdir(parents=True, exist_ok=True)
    for file in made["files"]:
        (folder / file).write_bytes(archive)
    return made


def write_list(path: Path, *entries: dict[str, Any]) -> Path:
    path.write_text(json.dumps(entries))
    return path


def store_folders(archives: Path) -> list[dict[str, Any]]:
    """Two folders of this repository as packages; one is held out."""
    entries = []
    for folder, validation in FOLDERS.items():
        paths = sorted((ROOT / folder).rglob("*.py"))
        files = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in paths}
        entries.append(store(archives, Path(folder).name, files, validation=validation))
    return entries
