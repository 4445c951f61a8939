"""A client's properties file, as Kafka's own tools take it, as options of kafka-python.

Source: ``java.util.Properties``, ``CommonClientConfigs``, ``SaslConfigs``, ``SslConfigs``. What
Python cannot do (key stores of Java, Kerberos, OAuth) raises a UserError that says what to do.
Passwords stay in what is returned: no message has them.
"""

import re
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kip_replay.pipelines.errors import UserError

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
#: A key ends at the first separator that is not escaped.
_ENTRY = re.compile(r"(?P<key>(?:\\.|[^\\=:\s])*)\s*[=:]?\s*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
#: An option of a JAAS entry: a word, or a string in quotation marks.
_JAAS_OPTION = r"""\b{name}\s*=\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s;"']+))"""
_TO_PEM = {
    "truststore": "keytool -exportcert -rfc -keystore STORE -alias ALIAS > ca.pem",
    "keystore": "openssl pkcs12 -in STORE -out client.pem (of a JKS, first keytool "
    "-importkeystore -deststoretype PKCS12)",
}


def client_options(file: str | None) -> dict[str, Any]:
    """Options for connections of kafka-python. Raises UserError."""
    given = _read(file) if file else {}
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise UserError(f"{file}: security.protocol is {protocol}, and not one of {_PROTOCOLS}")
    options: dict[str, Any] = {"security_protocol": protocol}
    if protocol.startswith("SASL"):
        options |= _sasl(given, str(file))
    if protocol.endswith("SSL"):
        options["ssl_context"] = _tls(given, str(file))
    return options


def properties(text: str) -> dict[str, str]:
    """The entries of a properties file."""
    joined = re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t\f]*", r"\1", text)
    lines = (line.lstrip() for line in joined.splitlines())
    entries = (_ENTRY.fullmatch(line) for line in lines if line and line[0] not in "#!")
    return {_unescaped(e["key"]): _unescaped(e["value"]) for e in entries if e}


def _read(file: str) -> dict[str, str]:
    try:
        return properties(Path(file).read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not a text in UTF-8"
        raise UserError(f"--command-config {file} cannot be read ({why})") from None


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(character, text)


def _sasl(given: Mapping[str, str], file: str) -> dict[str, str]:
    mechanism = given.get("sasl.mechanism", "GSSAPI")
    if mechanism not in _MECHANISMS:
        raise UserError(
            f"{file}: sasl.mechanism {mechanism} is not supported here: make a user for "
            f"{' or '.join(_MECHANISMS)}, or record by hand (docs/tutorial.md)"
        )
    jaas = given.get("sasl.jaas.config", "")
    name, password = (_jaas_option(jaas, option) for option in ("username", "password"))
    if name is None or password is None:
        raise UserError(f'{file}: sasl.jaas.config needs username="..." and password="..."')
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": name,
        "sasl_plain_password": password,
    }


def _jaas_option(jaas: str, name: str) -> str | None:
    found = re.search(_JAAS_OPTION.format(name=name), jaas)
    if found is None:
        return None
    return _unescaped(next(group for group in found.groups() if group is not None))


def _tls(given: Mapping[str, str], file: str) -> ssl.SSLContext:
    for store, command in _TO_PEM.items():
        kind = given.get(f"ssl.{store}.type", "JKS").upper()
        if kind != "PEM" and given.get(f"ssl.{store}.location"):
            raise UserError(
                f"{file}: ssl.{store}.type {kind} cannot be read here: convert it to PEM, {command}"
                f"; then ssl.{store}.type=PEM and the file as ssl.{store}.location"
            )
    context = ssl.create_default_context()
    context.check_hostname = given.get("ssl.endpoint.identification.algorithm", "https") != ""
    try:
        if authorities := _pem(given, "truststore", "certificates"):
            context = _only(authorities, context.check_hostname)
        chain, key = _pem(given, "keystore", "certificate.chain"), given.get("ssl.keystore.key", "")
        if chain:
            _load_own(context, chain + "\n" + key, given.get("ssl.key.password"))
    except (OSError, ssl.SSLError) as error:
        raise UserError(f"{file}: a PEM of ssl.* cannot be read ({error.strerror})") from None
    return context


def _only(authorities: str, checks_host: bool) -> ssl.SSLContext:
    """A context that trusts these certificates and no others."""
    context = ssl.create_default_context(cadata=authorities)
    context.check_hostname = checks_host
    return context


def _pem(given: Mapping[str, str], store: str, inline: str) -> str:
    """The text of a store, whether it is in the properties or in a file that they name."""
    file = given.get(f"ssl.{store}.location")
    return Path(file).read_text("ascii") if file else given.get(f"ssl.{store}.{inline}", "")


def _load_own(context: ssl.SSLContext, pem: str, password: str | None) -> None:
    """Loads the client's certificate and key, which Python only reads of files."""
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # with mode 0600
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name, password=password or (lambda: ""))
