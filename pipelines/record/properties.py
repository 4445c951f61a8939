"""A client's properties file, as Kafka's own tools take it, as options of kafka-python.

Source: ``java.util.Properties``, ``SaslConfigs``, ``SslConfigs``. Passwords stay in what is
returned: no message has them.
"""

import re
import shlex
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kip_replay.pipelines.errors import UserError

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
#: A key ends at the first separator that is not escaped.
_ENTRY = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_TO_PEM = {
    "truststore": "keytool -exportcert -rfc -keystore STORE -alias ALIAS > ca.pem",
    "keystore": "keytool -importkeystore -srckeystore STORE -destkeystore client.p12 "
    "-deststoretype PKCS12; openssl pkcs12 -in client.p12 -out client.pem",
}


def client_options(file: str | None) -> dict[str, Any]:
    """Options for connections of kafka-python. Raises UserError."""
    try:
        options = properties(Path(file).read_text("utf-8")) if file else {}
        protocol = options.get("security.protocol", "PLAINTEXT").upper()
        if protocol not in _PROTOCOLS:
            raise UserError(f"security.protocol {protocol} is none of {', '.join(_PROTOCOLS)}")
        sasl = _sasl(options) if protocol.startswith("SASL") else {}
        tls = {"ssl_context": _tls(options)} if protocol.endswith("SSL") else {}
    except UserError as error:
        raise UserError(f"--command-config {file}: {error}") from None
    except (OSError, ValueError) as error:  # without its text, which may have what was read
        why = getattr(error, "strerror", None) or "its form is not that of a properties file"
        raise UserError(f"--command-config {file}, or a PEM it names: {why}") from None
    return {"security_protocol": protocol, **sasl, **tls}


def properties(text: str) -> dict[str, str]:
    """The entries of a properties file."""
    joined = re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t\f]*", r"\1", text)
    lines = (line.lstrip() for line in joined.splitlines())
    entries = (_ENTRY.fullmatch(line) for line in lines if line and line[0] not in "#!")
    return {_unescaped(entry[1]): _unescaped(entry[2]) for entry in entries if entry}


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(character, text)


def _sasl(options: Mapping[str, str]) -> dict[str, str]:
    mechanism = options.get("sasl.mechanism", "GSSAPI")
    if mechanism not in _MECHANISMS:
        raise UserError(
            f"sasl.mechanism {mechanism} is not supported here: make a user for one of "
            f"{', '.join(_MECHANISMS)}, or record by hand (docs/tutorial.md)"
        )
    words = shlex.split(options.get("sasl.jaas.config", "").strip().rstrip(";"))
    jaas = dict(word.split("=", 1) for word in words if "=" in word)
    if not {"username", "password"} <= jaas.keys():
        raise UserError('sasl.jaas.config needs username="..." and password="..."')
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": jaas["username"],
        "sasl_plain_password": jaas["password"],
    }


def _tls(options: Mapping[str, str]) -> ssl.SSLContext:
    for store, command in _TO_PEM.items():
        kind = options.get(f"ssl.{store}.type", "JKS").upper()
        if kind != "PEM" and f"ssl.{store}.location" in options:
            raise UserError(
                f"a {store} of the type {kind} cannot be read here: convert it ({command}), and "
                f"set ssl.{store}.type=PEM and ssl.{store}.location"
            )
    context = ssl.create_default_context(cadata=_pem(options, "truststore", "certificates"))
    context.check_hostname = options.get("ssl.endpoint.identification.algorithm", "https") != ""
    if chain := _pem(options, "keystore", "certificate.chain"):
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # it only reads files
            file.write(f"{chain}\n{options.get('ssl.keystore.key', '')}")
            file.flush()
            context.load_cert_chain(file.name, password=options.get("ssl.key.password", ""))
    return context


def _pem(options: Mapping[str, str], store: str, inline: str) -> str:
    file = options.get(f"ssl.{store}.location")
    return Path(file).read_text("ascii") if file else options.get(f"ssl.{store}.{inline}", "")
