"""QR codes of the typed lines of a bundle, for a terminal; must not know the meaning of a line.

A scanner types the lines of a code, including the last line feed, into ``gapless bundle text --read -``. The checksums
of the lines detect a code that is missing or out of order.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.extras import not_installed

MAX_BYTES = 400
"""Bytes in a code: version 15 at medium error correction, which takes 81 columns and 41 rows with its border."""
_BORDER = 2


def pack_lines(lines: Iterable[str]) -> Iterator[str]:
    """Join `lines` into texts for as few codes as possible."""
    text = ""
    for line in lines:
        if text and len((text + line).encode()) + 1 > MAX_BYTES:
            yield text
            text = ""
        text += f"{line}\n"
    if text:
        yield text


def draw_code(text: str) -> str:
    """Draw the code of `text` with half blocks, for a terminal with a dark background.

    Raises:
        ConfigurationError: the text is too long for a code, or segno is not installed.
    """
    try:
        import segno  # noqa: PLC0415 -- optional
    except ImportError:
        raise not_installed("segno") from None
    try:
        code = segno.make_qr(text, error="m", boost_error=False)
    except segno.DataOverflowError:
        raise ConfigurationError(
            f"A line of {len(text.encode())} bytes does not fit into a QR code; type the lines or copy the file."
        ) from None
    drawing = io.StringIO()
    code.terminal(drawing, border=_BORDER, compact=True)
    return drawing.getvalue()
