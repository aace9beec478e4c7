"""Credentials for Kafka, from the environment and files to the wire.

`kafka_gate` is a broker without topics: TLS by OpenSSL, user and password by Kafka's protocol.
"""

import pytest

from brokers import certificates
from kafka_gate import Gate, tls_context
from ovk.app.cli import main
from ovk.app.tables.kafka import security

pytest.importorskip("confluent_kafka")

FILES = {"ca": "ca.pem", "cert": "c.pem", "key": "k.pem"}


@pytest.mark.parametrize(
    ("known", "options"),
    [
        ({}, {}),
        ({"tls": "1"}, {"security.protocol": "SSL"}),
        ({"ca": "ca.pem"}, {"security.protocol": "SSL", "ssl.ca.location": "ca.pem"}),
        (
            FILES,
            {
                "security.protocol": "SSL",
                "ssl.ca.location": "ca.pem",
                "ssl.certificate.location": "c.pem",
                "ssl.key.location": "k.pem",
            },
        ),
        (
            {"user": "me", "password": "secret"},
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "me",
                "sasl.password": "secret",
            },
        ),
        (
            {"user": "me", "ca": "ca.pem"},
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "me",
                "sasl.password": "",
                "ssl.ca.location": "ca.pem",
            },
        ),
    ],
)
def test_credentials_by_the_names_of_the_client_library(known, options):
    assert security(known) == options


@pytest.fixture
def refused(monkeypatch, capsys):
    """The error message of ``ovk stream``, which exits with code 2."""
    from ovk.app.tables import kafka

    monkeypatch.setattr(kafka, "ANSWER_TIMEOUT", 4.0)

    def sentence(gate, **environment):
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(f"OVK_BROKER_{name}", str(value))
            with pytest.raises(SystemExit) as ended:
                main(["stream", f"kafka://127.0.0.1:{gate.port}/rows", "--targets", "a"])
        out, err = capsys.readouterr()
        assert (ended.value.code, out, len(err.strip().splitlines())) == (2, "", 1)
        assert "secret" not in err
        return err

    return sentence


#: The message after successful authentication.
INSIDE = "there is no topic 'rows'"


def test_user_and_password(refused, tmp_path):
    with Gate("me", "secret") as gate:
        assert INSIDE in refused(gate, USER="me", PASSWORD="secret")
        # The client may repeat its request.
        assert set(gate.heard) == {b"\0me\0secret"}
        (tmp_path / "who").write_text("user = me\npassword = secret\n")
        assert INSIDE in refused(gate, FILE=tmp_path / "who")
        assert "denied access (SASL authentication error: who is that?)" in refused(gate, USER="me", PASSWORD="guess")
        assert gate.heard[-1] == b"\0me\0guess"


@pytest.mark.long
def test_tls_with_a_password(refused, tmp_path):
    certificates(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    certificates(other)
    with Gate("me", "secret", tls_context(tmp_path)) as gate:
        assert INSIDE in refused(gate, USER="me", PASSWORD="secret", CA=tmp_path / "cert.pem")
        assert gate.heard[-1] == b"\0me\0secret"
        heard = len(gate.heard)
        # An untrusted server does not receive the credentials.
        for environment in ({"CA": other / "cert.pem"}, {"TLS": 1}):
            assert "certificate verify failed" in refused(gate, USER="me", PASSWORD="secret", **environment)
        assert "no Kafka broker answers" in refused(gate, USER="me", PASSWORD="secret")
        assert len(gate.heard) == heard


def test_certificates_of_clients(refused, tmp_path):
    certificates(tmp_path)
    with Gate(tls=tls_context(tmp_path, clients=True)) as gate:
        ours = {"CA": tmp_path / "cert.pem", "CERT": tmp_path / "cert.pem", "KEY": tmp_path / "key.pem"}
        assert INSIDE in refused(gate, **ours)
        assert gate.peers[-1]
        assert "denied access" in refused(gate, CA=tmp_path / "cert.pem")
        for name in ("CA", "CERT", "KEY"):
            assert "TLS certificates cannot be used" in refused(gate, **{**ours, name: tmp_path / "none.pem"})


def test_tls_where_there_is_none(refused):
    with Gate() as gate:
        assert INSIDE in refused(gate)
        assert "no Kafka broker answers" in refused(gate, TLS=1)
