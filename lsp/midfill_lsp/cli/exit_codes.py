"""What the exit codes mean: the one place that says so."""

from enum import IntEnum
from typing import Final

from midfill_engine.errors import EngineError, FetchError, ModelError, TrainingError, TrainingFailed
from midfill_lsp.errors import InputError, OutputError, PlaceError, ReplayError


class ExitCode(IntEnum):
    """The exit codes of every subcommand."""

    DONE = 0
    NO_FILL = 1
    USAGE = 2
    INPUT = 3
    MODEL = 4
    ENGINE = 5
    OUTPUT = 6
    INTERRUPTED = 130


EPILOG: Final = """\
exit codes:
  0    done; for `fill`: a fill was found
  1    no fill was found, or there is nothing to fill there; for `demo`: in any of the holes;
       for `serve`: the editor went away without saying so
  2    the command line is wrong, or names a line or column the file does not have
  3    the file cannot be used: not there, not UTF-8, too large, NUL bytes; for `train`: the
       settings or a folder that it was given
  4    the model is missing, corrupt or cannot be fetched
  5    the engine failed, or the server that `demo` and `bench` start; for `train`: a process of
       it, or a download
  6    the result could not be written
  130  interrupted
"""


def code_for(error: Exception) -> ExitCode:
    """The exit code of an error of ours."""
    for kinds, code in _CODES:
        if isinstance(error, kinds):
            return code
    raise error


_CODES: Final[tuple[tuple[type[Exception] | tuple[type[Exception], ...], ExitCode], ...]] = (
    (PlaceError, ExitCode.USAGE),
    (TrainingFailed, ExitCode.ENGINE),
    ((InputError, TrainingError), ExitCode.INPUT),
    (OutputError, ExitCode.OUTPUT),
    ((ModelError, FetchError), ExitCode.MODEL),
    ((EngineError, ReplayError), ExitCode.ENGINE),
)
