"""A fake Docker daemon: the part of the HTTP API that docker-py and testcontainers need to run one
container. It runs nothing and records the requests. A container "prints" a given text, and each of
its published ports is a listening socket on this machine, to which clients can connect."""

import io
import json
import re
import socket
import struct
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

VERSION = {
    "Version": "99.1",
    "ApiVersion": "1.44",
    "MinAPIVersion": "1.24",
    "Os": "linux",
    "Arch": "amd64",
}


class Docker:
    """The daemon's state: ``images`` by name, and at most one container."""

    def __init__(self) -> None:
        self.images: set[str] = set()
        self.offered: set[str] | None = None
        """Images that can be pulled; None for all."""
        self.prints = b""
        self.runs = True
        """True if the container keeps running once started."""
        self.bridge = {"Subnet": "192.0.2.0/24"}
        """Addresses of the default network, as configured."""
        self.address = ""
        """The container's own address; its ports listen there too."""
        self.process = 0
        """The container's first process id."""
        self.out_of_memory = False
        """True if the system killed the container because of its memory use."""
        self.asked: list[str] = []
        """The methods and paths of the requests, without the API version."""
        self.created: dict[str, Any] = {}
        self.files: dict[str, bytes] = {}
        """Files copied into the container before its start, by path."""
        self.started = self.removed = False
        self.executed: list[list[str]] = []
        self.exit_code = 0
        self.listening: dict[str, socket.socket] = {}
        """Published ports, by the container's ports."""
        self.direct: list[socket.socket] = []
        self.server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"docker": self})
        )

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self.server.server_address[1]}"

    def inspected(self) -> dict[str, Any]:
        bound = {
            port: [{"HostIp": "127.0.0.1", "HostPort": str(listener.getsockname()[1])}]
            for port, listener in self.listening.items()
        }
        state = {
            "Status": "running" if self.runs else "exited",
            "Running": self.runs,
            "ExitCode": 0 if self.runs else 1,
            "OOMKilled": self.out_of_memory,
            "Pid": self.process,
        }
        bridge = {"Gateway": "127.0.0.1", "IPAddress": self.address}
        return {
            "Id": "c1",
            "Name": "/c1",
            "Image": "sha256:1",
            "State": state if self.started else {"Status": "created", "Running": False},
            "Config": {"Tty": False, "Labels": {}, "Image": self.created.get("Image", "")},
            "HostConfig": {"NetworkMode": "default", "LogConfig": {"Type": "json-file"}},
            "NetworkSettings": {"Ports": bound, "Networks": {"bridge": bridge}},
        }

    def start(self) -> None:
        self.started = True
        for port in self.created.get("ExposedPorts", {}):
            self.listening[port] = socket.create_server(("127.0.0.1", 0))
            if self.address:
                own = (self.address, int(port.partition("/")[0]))
                self.direct.append(socket.create_server(own))

    def remove(self) -> None:
        self.removed = True
        for listener in self.listening.values():
            listener.close()
        for listener in self.direct:
            listener.close()
        self.listening.clear()
        self.direct.clear()


@contextmanager
def serving() -> Iterator[Docker]:
    docker = Docker()
    thread = threading.Thread(target=docker.server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield docker
    finally:
        docker.remove()
        docker.server.shutdown()
        docker.server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    docker: Docker
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding") == "chunked":
            found = b""
            while size := int(self.rfile.readline(), 16):
                found += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return found
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def _say(self, status: int, body: Any = b"", kind: str = "application/json") -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _any(self) -> None:
        path, _, query = re.sub(r"^/v\d+\.\d+", "", self.path).partition("?")
        body, docker = self._body(), self.docker
        docker.asked.append(f"{self.command} {path}")
        match self.command, path.split("/")[1:]:
            case _, ["_ping"]:
                self._say(200, b"OK", "text/plain")
            case "GET", ["version"]:
                self._say(200, VERSION)
            case "GET", ["networks", "bridge"]:
                self._say(200, {"Id": "n1", "Name": "bridge", "IPAM": {"Config": [docker.bridge]}})
            case "GET", ["networks"]:
                self._say(200, [])
            case "GET", ["images", *name, "json"]:
                known = "/".join(name) in docker.images
                found = {"Id": "sha256:1", "RepoTags": ["/".join(name)]}
                self._say(
                    200 if known else 404,
                    found if known else {"message": f"No such image: {'/'.join(name)}"},
                )
            case "POST", ["images", "create"]:
                asked = dict(part.split("=") for part in query.split("&"))
                image = f"{asked['fromImage']}:{asked.get('tag', 'latest')}".replace("%2F", "/")
                if docker.offered is not None and image not in docker.offered:
                    self._say(404, {"message": f"manifest for {image} not found: manifest unknown"})
                    return
                docker.images.add(image)
                self._say(200, {"status": "Pull complete"})
            case "POST", ["containers", "create"]:
                docker.created, docker.started, docker.removed = json.loads(body), False, False
                self._say(201, {"Id": "c1", "Warnings": []})
            case "PUT", ["containers", "c1", "archive"]:
                assert not docker.started
                with tarfile.open(fileobj=io.BytesIO(body)) as archive:
                    for getmember in archive.getmembers():
                        read = archive.extractfile(getmember)
                        docker.files["/" + getmember.name] = b"" if read is None else read.read()
                self._say(200)
            case "POST", ["containers", "c1", "start"]:
                docker.start()
                self._say(204)
            case "GET", ["containers", "json"]:
                self._say(200, [self.docker.inspected()])
            case "GET", ["containers", "c1", "json"]:
                self._say(200, docker.inspected())
            case "GET", ["containers", "c1", "logs"]:
                wanted = "stdout=1" in query or "stdout=True" in query
                header = struct.pack(">BxxxL", 1, len(docker.prints))
                raw = "application/vnd.docker.multiplexed-stream"
                self._say(200, header + docker.prints if wanted and docker.started else b"", raw)
            case "POST", ["containers", "c1", "exec"]:
                docker.executed.append(json.loads(body)["Cmd"])
                self._say(201, {"Id": "e1"})
            case "POST", ["exec", "e1", "start"]:
                self.send_response(200)  # later bytes are not HTTP, and end with the connection
                self.send_header("content-type", "application/vnd.docker.raw-stream")
                self.end_headers()
                self.wfile.write(struct.pack(">BxxxL", 1, 4) + b"done")
                self.close_connection = True
            case "GET", ["exec", "e1", "json"]:
                self._say(200, {"ID": "e1", "Running": False, "ExitCode": docker.exit_code})
            case "DELETE", ["containers", "c1"]:
                docker.remove()
                self._say(204)
            case _:
                self._say(404, {"message": f"page not found: {self.command} {path}"})

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _any
