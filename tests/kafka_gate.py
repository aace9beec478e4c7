"""The door of a Kafka broker: TLS, user and password as its protocol has them, and behind it a cluster without topics.

It stands in for a broker, which cannot be installed here, to see what the client library makes of our settings.
"""

import ssl
import struct
import threading
from socket import create_server

#: Requests by their numbers in the protocol, with the newest version that is understood.
METADATA, HANDSHAKE, VERSIONS, AUTHENTICATE = 3, 17, 18, 36
NEWEST = {METADATA: 1, HANDSHAKE: 1, VERSIONS: 0, AUTHENTICATE: 0}

UNSUPPORTED, REFUSED = 35, 58


def text(value):
    return struct.pack(">h", len(value)) + value.encode()


class Gate:
    """Listens on the loopback address.

    Parameters
    ----------
    user, password : whom to let in; None lets in everybody without asking
    tls : context of the server, None for plain connections

    Attributes
    ----------
    heard : what clients said who they are
    peers : certificates of clients
    """

    def __init__(self, user=None, password=None, tls=None):
        self.heard, self.peers, self._tls = [], [], tls
        self._known = None if user is None else f"\0{user}\0{password}".encode()
        self._listener = create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._listener.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection):
        try:
            with connection:
                if self._tls is not None:
                    connection = self._tls.wrap_socket(connection, server_side=True)
                    self.peers.append(connection.getpeercert(binary_form=True))
                with connection, connection.makefile("rb") as file:
                    while size := file.read(4):
                        request = file.read(*struct.unpack(">i", size))
                        answer = request[4:8] + self._answer(request)
                        connection.sendall(struct.pack(">i", len(answer)) + answer)
        except OSError:
            pass

    def _answer(self, request):
        kind, version, _, name = struct.unpack(">hhih", request[:10])
        if kind == VERSIONS:
            error = 0 if version <= NEWEST[VERSIONS] else UNSUPPORTED
            ranges = b"".join(struct.pack(">hhh", key, 0, newest) for key, newest in NEWEST.items())
            return struct.pack(">hi", error, len(NEWEST)) + ranges
        if kind == HANDSHAKE:
            return struct.pack(">hi", 0, 1) + text("PLAIN")
        if kind == AUTHENTICATE:
            # Behind the client's name and a length.
            self.heard.append(request[10 + name + 4 :])
            known = self.heard[-1] == self._known
            return struct.pack(">h", 0 if known else REFUSED) + text("" if known else "who is that?") + bytes(4)
        if kind != METADATA:
            raise ConnectionError("that is not a request")
        brokers = struct.pack(">ii", 1, 1) + text("127.0.0.1") + struct.pack(">ih", self.port, -1)
        return brokers + struct.pack(">ii", 1, 0)


def tls_context(directory, *, clients=False):
    """The context of a server with the certificate in a directory, which may want to see that of its clients."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "cert.pem", directory / "key.pem")
    if clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(directory / "cert.pem")
    return context
