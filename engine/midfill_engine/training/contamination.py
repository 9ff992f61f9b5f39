"""Keeps evaluation problems out of the corpus.

Owns one question: does this file hold a piece of HumanEval, MBPP or their kin? It errs on the
side of dropping a file. What it catches, in any language unless Python is named:

- *Names.* A file or folder named after a benchmark, or a text that names one.
- *Harness.* HumanEval's `METADATA` and `check(candidate)`; the headings of MBPP's, APPS' and
  CodeContests' statements and the fields of their records.
- *Wording.* Ten words in a row of a problem that we have (prompt, solution and all, whatever their
  line breaks and punctuation), or six of them in a file that defines the problem's function.
- *Code*, Python: a run of `_RUN` tokens of a solution or of its tests that we have, with names
  changed consistently, comments and docstrings taken out and the layout ignored.
- *Signatures*, Python: examples or asserts that call a function of the name of one of HumanEval's
  164; of the names that anyone might choose, several that are defined in the same file.

What it does not catch: a solution that was rewritten; one of fewer than `_RUN` tokens under other
names and without its docstring; problems that we do not have, under other names and outside any
harness. Those are the other 100 of HumanEval's and all of MBPP's, APPS' and CodeContests', of
which only signatures, harness and statements' headings are known here.
"""

from __future__ import annotations

import builtins
import gzip
import json
import keyword
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from midfill_engine.errors import TrainingError
from midfill_engine.paths import PROBLEMS

_BENCHMARKS: Final = (
    r"human[_-]?eval(?![a-tv-z]|u(?!s))|(?<![a-z])mbpp(?![a-z])|eval[_-]?plus(?![a-z])|"
    r"code[_-]?contests(?![a-z])|apps[_-](metric|dataset|introductory|interview|competition)|"
    r"livecodebench|bigcodebench|multipl-e(?![a-z])|cruxeval|(?<![a-z])ds-?1000(?![0-9])"
)
_NAMES: Final = re.compile(_BENCHMARKS, re.IGNORECASE)
_PATH: Final = re.compile(
    rf"{_BENCHMARKS}|(^|/)apps/(train|test|\d{{4}})/|(^|/)ds_?1000", re.IGNORECASE
)
_HARNESS: Final = re.compile(
    r"""METADATA\s*=\s*\{\s*['"]author['"]\s*:\s*['"]\w*['"]\s*,\s*['"]dataset['"]|"""
    r"\bdef\s+check\(\s*candidate\b|\bassert\s+candidate\(|"
    r"\bwrite\s+a\s+(?:python\s+)?function\s+(?:to|that|which|for|using)\b|"
    r"your\s+code\s+should\s+(?:pass|satisfy)\s+the(?:se)?\s+(?:following\s+)?tests?\b|"
    r"""['"]challenge_test_list['"]|['"]test_setup_code['"]|"""
    r"-{5} ?(?:input|output|examples?|constraints) ?-{5}|"
    r"""['"](?:private|generated)_tests['"]""",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"\w+")
_LONG: Final = 10  # words; one match of this length is proof
_SHORT: Final = 6  # words; proof only together with the problem's function name

_RUN: Final = 30  # tokens of code
_NOT_CODE: Final = re.compile(
    r"""(?P<doc>^[ \t]*[rbuRBU]*(?P<q>\"\"\"|''').*?(?P=q))|#[^\n]*""", re.DOTALL | re.MULTILINE
)
_TOKEN: Final = re.compile(r"""[A-Za-z_]\w*|\d[\w.]*|"[^"\n]*"|'[^'\n]*'|[^\s\w]""")
_KNOWN: Final = frozenset(keyword.kwlist) | frozenset(dir(builtins))

# HumanEval's functions (Chen et al., 2021, arXiv:2107.03374): names that few others would choose,
_RARE_FUNCTIONS: Final = _WORD.findall(
    """
    has_close_elements separate_paren_groups truncate_number below_zero mean_absolute_deviation
    parse_nested_parens filter_by_substring sum_product make_palindrome string_xor all_prefixes
    string_sequence count_distinct_characters parse_music how_many_times find_closest_elements
    rescale_to_unit filter_integers largest_divisor filter_by_prefix get_positive find_zero
    sort_third sort_even decode_cyclic encode_cyclic prime_fib triples_sum_to_zero
    car_race_collision incr_list pairs_sum_to_zero change_base fib4 decode_shift encode_shift
    remove_vowels below_threshold same_chars correct_bracketing sum_to_n fibfib vowels_count
    digitSum fruit_distribution strange_sort_list will_it_fly smallest_change total_match
    is_multiply_prime is_simple_power iscube hex_key is_happy numerical_letter_grade
    prime_length starts_one_ends anti_shuffle next_smallest is_bored any_int skjkasdkd
    check_dict_case count_up_to count_upper closest_integer make_a_pile words_string choose_num
    rounded_avg unique_digits even_odd_palindrome count_nums move_one_ball reverse_delete
    odd_count minSubArraySum max_fill select_words get_closest_vowel match_parens add_elements
    get_odd_collatz prod_signs minPath check_if_last_char_is_a_letter can_arrange
    largest_smallest_integers compare_one is_equal_to_sum_even special_factorial fix_spaces
    file_name_check words_in_sentence order_by_points specialFilter get_max_triples
    sorted_list_sum x_or_y double_the_difference Strongest_Extension cycpattern_check
    even_odd_count int_to_mini_roman right_angle_triangle do_algebra string_to_md5
    generate_integers
    """
)
# and names that are only telling together.
_COMMON_FUNCTIONS: Final = _WORD.findall(
    """
    intersperse longest greatest_common_divisor sort_numbers strlen factorize remove_duplicates
    flip_case concatenate is_prime unique max_element fizz_buzz median is_palindrome modp
    triangle_area add fib monotonic common derivative search solve sort_array encrypt encode
    multiply exchange histogram maximum solution is_sorted intersection tri digits simplify bf
    compare find_max eat pluck get_row valid_date is_nested rolling_max circular_shift
    decimal_to_binary largest_prime_factor sum_squares split_words by_length
    """
)
_MANY: Final = 5  # libraries of small functions have a few
_FUNCTIONS: Final = "|".join((*_RARE_FUNCTIONS, *_COMMON_FUNCTIONS))
_DEFINED: Final = re.compile(rf"\bdef\s+({_FUNCTIONS})\s*\(")
_EXAMPLE: Final = re.compile(r"(?:>>>|\bassert\b)[^\n]*")
_CALLED: Final = re.compile(rf"\b({_FUNCTIONS})\s*\(")


class Contamination:
    """The fingerprints of a set of problems."""

    def __init__(self, problems: Iterable[dict[str, str]]) -> None:
        self._long: set[tuple[str, ...]] = set()
        self._short: set[tuple[str, ...]] = set()
        self._code = _Code()
        functions = set()
        for problem in problems:
            prompt, rest = problem["prompt"], problem["canonical_solution"] + problem["suffix"]
            self._long.update(filter(_is_telling, _grams(prompt + rest, _LONG)))
            self._short.update(filter(_is_telling, _grams(prompt + rest, _SHORT)))
            self._code.add(prompt + rest, problem["entry_point"])
            self._code.add(problem.get("test", ""), "check")
            functions.add(problem["entry_point"])
        self._definition = re.compile(rf"\bdef ({'|'.join(sorted(functions)) or '(?!)'})\(")

    @classmethod
    def load(cls, path: Path = PROBLEMS) -> Contamination:
        """Read a gzipped JSON-lines file of problems.

        Raises:
            TrainingError: it is not there, or is none. A corpus is never built unchecked.
        """
        try:
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                return cls(json.loads(line) for line in lines)
        except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
            raise TrainingError(f"{path} is no file of problems: {error!r}") from error

    def found_in(self, text: str, path: str = "") -> str | None:
        """What gives a file of that path away, in a word; None if nothing does."""
        if _PATH.search(path) or _NAMES.search(text):
            return "name"
        if _HARNESS.search(text):
            return "harness"
        if not self._long.isdisjoint(_grams(text, _LONG)):
            return "wording"
        if self._definition.search(text) and not self._short.isdisjoint(_grams(text, _SHORT)):
            return "wording"
        if _has_signatures(text):
            return "signature"
        is_python = PurePosixPath(path).suffix in ("", ".py")
        return "code" if is_python and self._code.found_in(text) else None


def _has_signatures(text: str) -> bool:
    examples = "\n".join(_EXAMPLE.findall(text))
    called = set(_CALLED.findall(examples))
    if not called.isdisjoint(_RARE_FUNCTIONS):
        return True
    return len(called) >= _MANY and len(called.intersection(_DEFINED.findall(text))) >= _MANY


def _grams(text: str, size: int) -> Iterator[tuple[str, ...]]:
    words = _WORD.findall(text.lower())
    return zip(*(words[i:] for i in range(size)), strict=False)


def _is_telling(gram: tuple[str, ...]) -> bool:
    """Whether it is more than figures, single letters and what any Python is made of."""
    words = {word for word in gram if word.isalpha() and len(word) > 1 and word not in _KNOWN}
    return 2 * len(words) >= len(gram)


class _Code:
    """Runs of tokens of known code, to be found again under other names.

    For speed a text is first spelled with one character for each token, the same for every name;
    runs that agree so far are then compared with names numbered in the order they appear.
    """

    def __init__(self) -> None:
        self._characters: dict[str, str] = {}
        self._runs: defaultdict[str, set[tuple[str, ...]]] = defaultdict(set)

    def add(self, source: str, function: str) -> None:
        """Take in the body of `function`, the definition's own line aside."""
        _, _, body = source.partition(f"def {function}(")
        tokens = _tokens(body.partition("\n")[2])
        for token in tokens:
            self._characters.setdefault(_kind(token), chr(0x100 + len(self._characters)))
        spelled = self._spell(tokens)
        for i in range(len(tokens) - _RUN + 1):
            run = tokens[i : i + _RUN]
            if sum(token[0].isalpha() for token in run) >= _RUN / 5:  # more than a row of figures
                self._runs[spelled[i : i + _RUN]].add(_renamed(run))

    def found_in(self, text: str) -> bool:
        if not self._runs:
            return False
        tokens = _tokens(text)
        spelled = self._spell(tokens)
        for i in range(len(tokens) - _RUN + 1):
            known = self._runs.get(spelled[i : i + _RUN])
            if known and _renamed(tokens[i : i + _RUN]) in known:
                return True
        return False

    def _spell(self, tokens: list[str]) -> str:
        return "".join([self._characters.get(_kind(token), "?") for token in tokens])


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(_NOT_CODE.sub("", text))


def _is_name(token: str) -> bool:
    return (token[0].isalpha() or token[0] == "_") and token not in _KNOWN


def _kind(token: str) -> str:
    return "name" if _is_name(token) else token.replace('"', "'")


def _renamed(tokens: list[str]) -> tuple[str, ...]:
    numbers: dict[str, str] = {}
    return tuple(
        numbers.setdefault(token, f"name {len(numbers)}") if _is_name(token) else _kind(token)
        for token in tokens
    )
