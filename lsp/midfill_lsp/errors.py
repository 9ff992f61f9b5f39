"""Everything the server and the commands raise on purpose.

LspError
├── InputError         a file or an argument of a command is not usable; the message names it
│   ├── SourceError    the file: not there, not text, too large
│   └── PlaceError     the place asked for does not exist in the file
├── OutputError        a result could not be written
└── ReplayError        the server that a demo or a bench has started went away or failed
"""


class LspError(Exception):
    """Root of this room's exceptions. `str(error)` is one line fit for a user."""


class InputError(LspError):
    """What the user named is not usable."""


class SourceError(InputError):
    """The file cannot be read, is too large, or is no text in UTF-8."""


class PlaceError(InputError):
    """The line or the column does not exist in the file."""


class OutputError(LspError):
    """The result could not be written."""


class ReplayError(LspError):
    """A server of our own ended, or answered with an error."""
