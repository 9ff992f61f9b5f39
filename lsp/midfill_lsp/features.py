"""Which of the server's methods answers to which of LSP's."""

from functools import partial

from lsprotocol import types

from midfill_lsp.methods.code_action import CODE_ACTION_OPTIONS, code_action
from midfill_lsp.methods.configuration import did_change_configuration, initialized
from midfill_lsp.methods.execute_command import COMMAND, execute_command
from midfill_lsp.methods.initialize import initialize
from midfill_lsp.methods.inline_completion import inline_completion
from midfill_lsp.methods.synchronization import (
    did_change,
    did_close,
    did_open,
    lost_notification,
)
from midfill_lsp.methods.work_done_progress import work_done_progress_cancel
from midfill_lsp.server import MidfillServer


def register(server: MidfillServer) -> None:
    """Give the server its methods."""
    server.protocol.on_lost_notification = partial(lost_notification, server)
    server.feature(types.INITIALIZE)(initialize)
    server.feature(types.INITIALIZED)(initialized)
    server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)(did_change_configuration)
    server.feature(types.TEXT_DOCUMENT_DID_OPEN)(did_open)
    server.feature(types.TEXT_DOCUMENT_DID_CHANGE)(did_change)
    server.feature(types.TEXT_DOCUMENT_DID_CLOSE)(did_close)
    # Without options pygls does not announce it.
    server.feature(types.TEXT_DOCUMENT_INLINE_COMPLETION, types.InlineCompletionOptions())(
        inline_completion
    )
    server.feature(types.TEXT_DOCUMENT_CODE_ACTION, CODE_ACTION_OPTIONS)(code_action)
    server.command(COMMAND)(execute_command)  # announced
    server.feature(types.WORKSPACE_EXECUTE_COMMAND)(execute_command)  # answered
    server.feature(types.WINDOW_WORK_DONE_PROGRESS_CANCEL)(work_done_progress_cancel)
