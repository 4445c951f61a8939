"""Names that stand for names: the same for the same name and key, and nothing without the key.

A pseudonym is a keyed hash (BLAKE2b with a key, RFC 7693): whoever has not the key can neither read
a name nor confirm a guess of one. Different uses of the key have hashes of their own (*person*).

Sizes on the wire follow from the lengths of names, so a pseudonym has as many bytes as its name,
but ``LENGTH_MIN`` at least: of 100,000 names of that length, two are one with a probability of 1 in
50,000.
"""

import hashlib
import string
from dataclasses import dataclass, field

#: Bytes of the shortest pseudonym: 64 letters to the 8th are 2.8e14.
LENGTH_MIN = 8
#: A shorter secret could be found by trying.
SECRET_BYTES_MIN = 16
_LETTERS = (string.ascii_letters + string.digits + "._").encode()
#: Each byte of a hash becomes one of the 64 letters, all as often.
_LETTER_OF_BYTE = _LETTERS * 4


@dataclass(frozen=True)
class Pseudonyms:
    """Hashes names, lines and files by a key, which is never shown."""

    _key: bytes = field(repr=False)

    @staticmethod
    def of_secret(secret: bytes) -> "Pseudonyms":
        """Makes a key of bytes, less white space around them. Raises ValueError for too few."""
        secret = secret.strip()
        if len(secret) < SECRET_BYTES_MIN:
            raise ValueError(f"{len(secret)} bytes, of {SECRET_BYTES_MIN} at the least")
        return Pseudonyms(hashlib.blake2b(secret, digest_size=32, person=b"key").digest())

    @property
    def fingerprint(self) -> str:
        """32 hex digits that distinguish keys and do not reveal them."""
        return self._digest(b"fingerprint", 16).hexdigest()

    def of(self, name: str) -> str:
        """The pseudonym: ASCII letters, digits, dots and underlines; "" stays as it is."""
        if not name:
            return name
        utf8 = name.encode()
        digest = self._digest(b"name", 64)
        digest.update(utf8)
        letters = digest.digest().translate(_LETTER_OF_BYTE).decode()
        length = max(LENGTH_MIN, len(utf8))
        return (letters * (length // len(letters) + 1))[:length]

    def line_digest(self) -> hashlib.blake2b:
        return self._digest(b"line", 16)

    def content_digest(self) -> hashlib.blake2b:
        return self._digest(b"content", 16)

    def _digest(self, person: bytes, digest_size: int) -> hashlib.blake2b:
        return hashlib.blake2b(key=self._key, person=person, digest_size=digest_size)
