"""What building a corpus is told, and the building.

Owns the recipe file: a JSON object with the fields of `Recipe`; relative paths are taken from its
folder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from midfill_engine.model.vocabulary import Vocabulary
from midfill_engine.paths import PROBLEMS, model_dir
from midfill_engine.training.config import read_settings
from midfill_engine.training.contamination import Contamination
from midfill_engine.training.corpus import build
from midfill_engine.training.download import fetch_packages
from midfill_engine.training.packages import OUR_LIST, read_packages


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A corpus to be built."""

    archives: Path  # directory to download to; what is there already is not downloaded again
    packages: Path = OUR_LIST
    problems: Path = PROBLEMS  # gzipped JSON lines; files that hold one of these are left out
    model: str = "embedded"  # whose tokens; a name or a directory

    @classmethod
    def load(cls, path: Path) -> Recipe:
        """Read a recipe.

        Raises:
            TrainingError: it cannot be read, or has settings that are none.
        """
        return cls(**read_settings(path, cls, paths=("archives", "packages", "problems")))


def build_corpus(recipe: Recipe, out: Path, say: Callable[[str], None]) -> None:
    """Download what is missing of a recipe's packages, and write their corpus into `out`.

    Raises:
        TrainingError: the list of packages, the problems or an archive cannot be used.
        TrainingFailed: some packages cannot be had.
        ModelMissing, ModelCorrupt: the tokenizer cannot be used.
    """
    packages = read_packages(recipe.packages)
    contamination = Contamination.load(recipe.problems)
    vocabulary = Vocabulary.load(model_dir(recipe.model))
    fetch_packages(packages, recipe.archives, say)
    build(packages, recipe.archives, vocabulary, contamination, out, say)
