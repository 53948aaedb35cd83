"""Secrets in pieces: any `enough` of them give the secret back, fewer say nothing (Shamir 1979).

Numbers modulo the prime 2**521 - 1: a secret of 32 bytes is the value at 0 of a random polynomial of degree
``enough - 1``, a piece is its value at another place.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence

PRIME = 2**521 - 1
SECRET = 32
"""Bytes of a secret."""
PIECE = 66
"""Bytes of a piece."""
_NONCE = _TAG = 16


def split(secret: bytes, places: int, enough: int) -> list[bytes]:
    """Pieces of a secret at the places 1, 2, ...

    Examples
    --------
    >>> from sketchlearn.privacy.sharing import joined, split
    >>> pieces = split(b"0123456789abcdef0123456789abcdef", places=5, enough=3)
    >>> joined({1: pieces[0], 4: pieces[3], 5: pieces[4]})
    b'0123456789abcdef0123456789abcdef'
    """
    if len(secret) != SECRET or not 1 <= enough <= places:
        raise ValueError(f"a secret of {SECRET} bytes, and no more pieces needed than there are")
    terms = [int.from_bytes(secret, "big"), *(secrets.randbelow(PRIME) for _ in range(enough - 1))]
    pieces = []
    for place in range(1, places + 1):
        value = 0
        for term in reversed(terms):
            value = (value * place + term) % PRIME
        pieces.append(value.to_bytes(PIECE, "big"))
    return pieces


def joined(pieces: Mapping[int, bytes]) -> bytes:
    """The secret behind pieces, by place; something else if they are too few or don't belong together."""
    total = 0
    for i, piece in pieces.items():
        above = below = 1
        for j in pieces:
            if j != i:
                above = above * j % PRIME
                below = below * (j - i) % PRIME
        total = (total + int.from_bytes(piece, "big") * above * pow(below, -1, PRIME)) % PRIME
    return (total % 2 ** (8 * SECRET)).to_bytes(SECRET, "big")


def derived(key: bytes, *purpose: str) -> bytes:
    """A secret for one purpose from a key."""
    text = b"".join(len(part.encode()).to_bytes(4, "big") + part.encode() for part in ("sketchlearn", *purpose))
    return hmac.digest(key, text, "sha256")


def sealed(key: bytes, message: bytes) -> bytes:
    """A message that nobody can read or change without the key; two of them have nothing in common."""
    nonce = secrets.token_bytes(_NONCE)
    hidden = nonce + _hidden(key, nonce, message)
    return hidden + hmac.digest(derived(key, "tag"), hidden, "sha256")[:_TAG]


def opened(key: bytes, message: bytes) -> bytes:
    """Inverse of :func:`sealed`; ValueError if it was changed."""
    hidden, tag = message[:-_TAG], message[-_TAG:]
    if not hmac.compare_digest(hmac.digest(derived(key, "tag"), hidden, "sha256")[:_TAG], tag):
        raise ValueError("a sealed message was changed, or is for another holder")
    return _hidden(key, hidden[:_NONCE], hidden[_NONCE:])


def _hidden(key: bytes, nonce: bytes, message: bytes) -> bytes:
    stream = hashlib.shake_256(derived(key, "stream") + nonce).digest(len(message))
    return bytes(a ^ b for a, b in zip(message, stream, strict=True))


def places(names: Sequence[str]) -> dict[str, int]:
    """The place of each holder: 1, 2, ... in the order of names."""
    return {name: i for i, name in enumerate(sorted(names), 1)}
