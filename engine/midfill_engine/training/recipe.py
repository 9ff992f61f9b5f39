"""What building a corpus is told, and the building.

Owns the recipe file: a JSON object with the fields of `Recipe`; relative paths are taken from its
folder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from midfill_engine.model.vocabulary import Vocabulary
from midfill_engine.paths import model_dir
from midfill_engine.training.config import read_settings
from midfill_engine.training.contamination import Contamination
from midfill_engine.training.corpus import build
from midfill_engine.training.packages import OUR_LIST, read_packages


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A corpus to be built."""

    archives: Path  # directory of downloaded archives
    packages: Path = OUR_LIST
    problems: Path | None = None  # gzipped JSON lines; texts that hold one of these are left out
    model: str = "embedded"  # whose tokens; a name or a directory

    @classmethod
    def load(cls, path: Path) -> Recipe:
        """Read a recipe.

        Raises:
            TrainingError: it cannot be read, or has settings that are none.
        """
        return cls(**read_settings(path, cls, paths=("archives", "packages", "problems")))


def build_corpus(recipe: Recipe, out: Path, say: Callable[[str], None]) -> None:
    """Write the corpus of a recipe into the folder `out`.

    Raises:
        TrainingError: the packages are not as listed.
        ModelMissing, ModelCorrupt: the tokenizer cannot be used.
    """
    packages = read_packages(recipe.packages, recipe.archives)
    vocabulary = Vocabulary.load(model_dir(recipe.model))
    contamination = Contamination.load(recipe.problems)
    build(packages, recipe.archives, vocabulary, contamination, out, say)
