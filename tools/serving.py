"""HTTP by hand, for clients of every kind of manners, and a `smelt serve` to try it on: what soak, hostile and faults
share."""

import collections
import json
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Failure(Exception):
    """What the server did wrong."""


class NotStarted(Failure):
    """A server that ended before it listened."""

    def __init__(self, code, log):
        super().__init__("the server did not start: " + log)
        self.code = code


class Connection:
    def __init__(self, address, receive_buffer=None):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(600)  # long, as it may run where others have the processor
        self.socket.connect(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.unread = b""
        self.received = time.perf_counter()  # when bytes came last

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def receive_some(self):
        """Some bytes; none: the server has closed."""
        data = self.socket.recv(1 << 16)
        self.received = time.perf_counter()
        return data

    def receive(self):
        data = self.receive_some()
        if not data:
            raise Failure("the server closed in the middle of an answer")
        self.unread += data

    def line(self):
        while b"\r\n" not in self.unread:
            self.receive()
        line, self.unread = self.unread.split(b"\r\n", 1)
        return line

    def exactly(self, count):
        while len(self.unread) < count:
            self.receive()
        data, self.unread = self.unread[:count], self.unread[count:]
        return data

    def head(self):
        status = int(self.line().split()[1])
        headers = {}
        while line := self.line():
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        return status, headers

    def parts(self, headers):
        """The parts of a body as they come."""
        if headers.get("transfer-encoding") != "chunked":
            yield self.exactly(int(headers.get("content-length", 0)))
            return
        while size := int(self.line(), 16):
            yield self.exactly(size)
            self.line()
        self.line()

    def go(self, rudely):
        if rudely:  # a reset in place of an end
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()


def request_of(path, body=None, host="127.0.0.1"):
    """`body`: JSON, as a value or as its bytes."""
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", f"Host: {host}"]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + data


CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
MESSAGES = [{"role": "user", "content": "a"}]


def chat(**more):
    return json.dumps({"messages": MESSAGES, "max_tokens": 1} | more).encode()


def opened(server, data, receive_buffer=None):
    connection = Connection(server.address, receive_buffer)
    connection.send(data)
    return connection


class Asker:
    """One request after another on one connection."""

    def __init__(self, server):
        self.connection = Connection(server.address)
        self.statuses = collections.Counter()

    def post(self, path, body):
        self.connection.send(request_of(path, body))
        status, headers = self.connection.head()
        self.statuses[status] += 1
        return status, b"".join(self.connection.parts(headers))


def get(address, path):
    with Connection(address) as connection:
        connection.send(request_of(path))
        status, headers = connection.head()
        return status, b"".join(connection.parts(headers)).decode()


class Server:
    """One that this program starts, and ends. `limits`: of what it may have, resource.RLIMIT_...: most. `under`: a
    program that starts it."""

    def __init__(self, binary, flags, limits=None, environment=None, under=()):
        def limit():
            for kind, most in (limits or {}).items():
                resource.setrlimit(kind, (most, most))

        self.log = tempfile.NamedTemporaryFile("w+", prefix="soak-", suffix=".log")
        command = [*under, binary, "serve", "--port", "0", *flags]
        self.process = subprocess.Popen(
            command,
            stderr=self.log,
            stdin=subprocess.DEVNULL,
            preexec_fn=limit,
            env=os.environ | (environment or {}),
        )
        self.address = ("127.0.0.1", self.wait_for_port())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def wait_for_port(self):
        while self.process.poll() is None:
            found = re.search(r"at http://127\.0\.0\.1:(\d+)", pathlib.Path(self.log.name).read_text())
            if found:
                return int(found.group(1))
            time.sleep(0.02)
        raise NotStarted(self.process.returncode, pathlib.Path(self.log.name).read_text())

    def metrics(self):
        values = {}
        for line in get(self.address, "/metrics")[1].splitlines():
            if not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                values[name] = float(value)
        return values

    def wait_until_idle(self):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            metrics = self.metrics()
            if metrics["vllm:num_requests_running"] + metrics["vllm:num_requests_waiting"] == 0:
                return metrics
            time.sleep(0.01)
        raise Failure("requests are still running a minute after the last client has gone")

    def resources(self):
        """Bytes of memory that swapping does not hide, descriptors, threads."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        kib = {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+)", status, re.M)}
        descriptors = len(os.listdir(f"/proc/{self.process.pid}/fd"))
        return (kib["RssAnon"] + kib["VmSwap"]) << 10, descriptors, kib["Threads"]

    def processor_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def http_seconds(self):
        """Processor time of the thread that talks to clients."""
        seconds = 0
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            if (task / "comm").read_text().strip() == "smelt-http":
                seconds += int((task / "schedstat").read_text().split()[0]) / 1e9
        return seconds

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Failure("the server did not end within 40 s of SIGTERM") from None
        if code != 0:
            raise Failure(f"the server ended with {code}: " + pathlib.Path(self.log.name).read_text())
