"""`initialized` and `workspace/didChangeConfiguration`: settings pushed, and settings pulled."""

from collections.abc import Mapping

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from midfill_lsp.options import KEYS
from midfill_lsp.server import NAME, MidfillServer


async def initialized(ls: MidfillServer, params: types.InitializedParams) -> None:
    """Ask to be told of changes, and for the settings as they are."""
    workspace = ls.client_capabilities.workspace
    changes = workspace.did_change_configuration if workspace else None
    if changes is not None and changes.dynamic_registration:
        await _register(ls)
    if _can_pull(ls):
        await _pull(ls)


async def did_change_configuration(
    ls: MidfillServer, params: types.DidChangeConfigurationParams
) -> None:
    """Take in what was pushed: ours alone or under our name. If nothing was, ask for it."""
    pushed = params.settings
    if isinstance(pushed, Mapping) and NAME in pushed:
        ls.configure(pushed[NAME])
    elif _can_pull(ls):
        await _pull(ls)
    elif not _is_foreign(pushed):
        ls.configure(pushed)


def _is_foreign(pushed: object) -> bool:
    """Whether these are other servers' sections: some editors push everything to everyone."""
    return (
        isinstance(pushed, Mapping)
        and bool(pushed)
        and all(isinstance(value, Mapping) and key not in KEYS for key, value in pushed.items())
    )


def _can_pull(ls: MidfillServer) -> bool:
    workspace = ls.client_capabilities.workspace
    return workspace is not None and bool(workspace.configuration)


async def _register(ls: MidfillServer) -> None:
    method = types.WORKSPACE_DID_CHANGE_CONFIGURATION
    options = types.DidChangeConfigurationRegistrationOptions(section=NAME)
    registration = types.Registration(id=method, method=method, register_options=options)
    try:
        await ls.client_register_capability_async(types.RegistrationParams([registration]))
    except JsonRpcException as error:
        ls.log(f"the client does not register {method}: {error}")


async def _pull(ls: MidfillServer) -> None:
    wanted = types.ConfigurationParams([types.ConfigurationItem(section=NAME)])
    try:
        answer = await ls.workspace_configuration_async(wanted)
    except JsonRpcException as error:
        ls.log(f"the client does not tell the settings: {error}")
    else:
        ls.configure(answer[0] if answer else None)
