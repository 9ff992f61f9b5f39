"""`window/workDoneProgress/cancel`: the user has pressed cancel."""

from lsprotocol import types

from midfill_lsp.server import MidfillServer


def work_done_progress_cancel(
    ls: MidfillServer, params: types.WorkDoneProgressCancelParams
) -> None:
    """Stop the work that shows progress under the token."""
    ls.progress_tokens.cancel(params.token)
