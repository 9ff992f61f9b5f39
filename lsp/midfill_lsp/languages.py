"""Which language a document is in: the editor's identifier first, the file's name second.

Owns nothing but the path in a URI; the languages themselves are `midfill_infill`'s.
"""

from urllib.parse import unquote, urlsplit

from midfill_infill import language_for


def language_of(uri: str, language_id: str) -> str | None:
    """Key of the language, None when no grammar is known for it."""
    try:
        path = unquote(urlsplit(uri).path)
    except ValueError:  # such as a bracket that opens no IPv6 address
        path = uri
    return language_for(language_id, path)
