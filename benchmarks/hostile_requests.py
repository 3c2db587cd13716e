"""Requests that no honest client sends: malformed, of wrong types, huge, cut off. `serving.py` and a test send them.

They are for a server of a program `x: f32[n, 3]` under the name `scaling` that takes bodies of at most 2 MB.
"""

from __future__ import annotations

import io
import socket
import zipfile

GOOD = b'{"inputs":{"x":[[1,2,3]]}}'
JSON, NPZ, ARROW = b"application/json", b"application/x-npz", b"application/vnd.apache.arrow.stream"


def post(body: bytes, kind: bytes = JSON, path: bytes = b"/predict") -> bytes:
    head = b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: " + kind
    return head + b"\r\nContent-Length: " + str(len(body)).encode() + b"\r\nConnection: close\r\n\r\n" + body


def nested(depth: int) -> bytes:
    return b'{"inputs":{"x":' + b"[" * depth + b"]" * depth + b"}}"


def bomb() -> bytes:
    """An archive of few bytes that would unpack to 64 MB."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w", force_zip64=True) as x:
        for _ in range(64):
            x.write(bytes(1 << 20))
    return file.getvalue()


HEAD = b"POST /predict HTTP/1.1\r\nHost: localhost\r\n"
REQUESTS = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
    b"GET / HTTP/9.9\r\n\r\n",
    HEAD + b"Content-Length: -1\r\n\r\n",
    HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n",
    HEAD + b"Content-Length: 10\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffff\r\n" + b"x" * 10_000,
    b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(5_000)) + b"\r\n",
    b"POST /predict/../../etc/passwd HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
    post(b""),
    post(b"{"),
    post(b"\x00" * 1000),
    post(nested(50)),
    post(nested(100_000)),
    post(b'{"inputs":{"x":[[1,2,1e999]]}}'),
    post(b'{"inputs":{"x":[[1,2,' + b"9" * 5_000 + b"]]}}"),
    post(b'{"inputs":{"x":[["a","b","c"]]}}'),
    post(b'{"inputs":{"x":[["NaN","Infinity",1]]}}'),
    post(b'{"inputs":{"x":[[1,2],[3]]}}'),
    post(b'{"inputs":{"x":[[[[1]]]]}}'),
    post(b'{"inputs":{"x":null}}'),
    post(b'{"inputs":{"x":{"x":{}}}}'),
    post(b'{"instances":[' + b"1," * 2_000 + b"1]}"),
    post(b"x" * 3_000_000),
    post(GOOD, b"text/html"),
    post(GOOD, path=b"/predict/nobody"),
    post(GOOD, path=b"/predict/scaling/-1"),
    post(GOOD, path=b"/reload/nobody"),
    post(b"PK\x03\x04" + b"\x00" * 500, NPZ),
    post(bomb(), NPZ),
    post(b"\xff\xff\xff\xff\x10\x00\x00\x00" + b"\xff" * 500, ARROW),
    post(GOOD)[:-5],  # and then nothing more
]


def send(port: int, data: bytes) -> bytes:
    """Send a request and go away; the status that the server begins its answer with, b"" if it only closes."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            return client.recv(200)[9:12]
    except OSError:  # it has closed while we were sending
        return b""
