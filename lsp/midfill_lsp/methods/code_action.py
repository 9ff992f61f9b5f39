"""`textDocument/codeAction`: offers to fill a selection."""

from lsprotocol import types

from midfill_lsp.methods.execute_command import COMMAND
from midfill_lsp.server import MidfillServer

# A rewrite, as some clients leave quick fixes out that belong to no diagnostic.
_KIND = types.CodeActionKind.RefactorRewrite
_TITLE = "Fill the selection with midfill"
CODE_ACTION_OPTIONS = types.CodeActionOptions(code_action_kinds=[_KIND])


def code_action(
    ls: MidfillServer, params: types.CodeActionParams
) -> list[types.CodeAction | types.Command]:
    """One action for a selection that is not empty, bound to the version it was made in."""
    document = ls.documents.get(params.text_document.uri)
    if document is None or not _is_wanted(params.context.only):
        return []
    if document.offset(params.range.start) >= document.offset(params.range.end):
        return []
    argument = {
        "uri": document.uri,
        "version": document.version,
        "range": {
            "start": {"line": params.range.start.line, "character": params.range.start.character},
            "end": {"line": params.range.end.line, "character": params.range.end.character},
        },
    }
    command = types.Command(title=_TITLE, command=COMMAND, arguments=[argument])
    if _takes_literals(ls.client_capabilities):
        return [types.CodeAction(title=_TITLE, kind=_KIND, command=command)]
    return [command]


def _is_wanted(only: object) -> bool:
    """Whether a kind the client asks for is ours or one above it. It asks for all with none."""
    if not isinstance(only, list | tuple) or not only:
        return True
    kinds = [kind.value if isinstance(kind, types.CodeActionKind) else str(kind) for kind in only]
    return any(kind == "" or f"{_KIND.value}.".startswith(f"{kind}.") for kind in kinds)


def _takes_literals(capabilities: types.ClientCapabilities) -> bool:
    text_document = capabilities.text_document
    action = text_document.code_action if text_document else None
    return action is not None and action.code_action_literal_support is not None
