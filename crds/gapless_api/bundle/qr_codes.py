"""Owns how the typed lines of a bundle become QR codes in a terminal; must not know what a line says.

A code that is scanned types its lines, with the line feed of the last one: scan one after the other into
``gapless bundle text --read -``. The checksums of the lines tell when one was left out or comes in another order.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_BYTES = 400
"""Of one code: at medium error correction its version 15, which with its border is 81 columns and 41 rows."""
_BORDER = 2


def pack_lines(lines: Iterable[str]) -> Iterator[str]:
    """Put `lines` together for as few codes as hold them."""
    text = ""
    for line in lines:
        if text and len((text + line).encode()) + 1 > MAX_BYTES:
            yield text
            text = ""
        text += f"{line}\n"
    if text:
        yield text


def draw_code(text: str) -> str:
    """Draw the code of `text` with half blocks, dark on light in a terminal that is light on dark.

    Raises:
        ConfigurationError: it is more than any code holds, or segno is not installed.
    """
    try:
        import segno  # noqa: PLC0415 -- an extra, and needed for codes alone
    except ImportError:
        raise ConfigurationError(
            "QR codes need the package segno; install it with: pip install 'gapless-api[qr]'."
        ) from None
    try:
        code = segno.make_qr(text, error="m", boost_error=False)
    except segno.DataOverflowError:
        raise ConfigurationError(
            f"A line of {len(text.encode())} bytes does not fit into a QR code; type the bundle or copy the file."
        ) from None
    picture = io.StringIO()
    code.terminal(picture, border=_BORDER, compact=True)
    return picture.getvalue()
