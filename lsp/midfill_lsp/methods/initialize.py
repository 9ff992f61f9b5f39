"""`initialize`: the client says what it can do and what it wants."""

from lsprotocol import types
from pygls.capabilities import ServerCapabilitiesBuilder

from midfill_lsp.positions import Encoding
from midfill_lsp.server import MidfillServer


def initialize(ls: MidfillServer, params: types.InitializeParams) -> None:
    """Agree on the position encoding, take in the first settings, and watch the client.

    pygls answers, and declares the encoding it chooses in the same way.
    """
    chosen = ServerCapabilitiesBuilder.choose_position_encoding(params.capabilities)
    ls.documents.encoding = Encoding(chosen)
    ls.configure(params.initialization_options, initial=True)
    if params.process_id is not None:
        ls.on_client_process(params.process_id)
