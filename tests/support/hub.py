"""A stand-in for the Hugging Face hub, on this machine alone."""

import base64
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_of_the_owner"
LARGE = (".safetensors", ".h5")  # stored beside git, as the hub's .gitattributes have it


def git_hash(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def large(content: bytes) -> dict[str, Any]:
    """Metadata of a file that is stored outside of git."""
    oid = hashlib.sha256(content).hexdigest()
    return {"oid": oid, "size": len(content), "pointerSize": 134}


class Hub:
    """Responses of the real hub for files of repositories, by `owner/repo/file`.

    With a token it takes uploads, too: small files in the commit, large ones before it.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.sent: Callable[[bytes], bytes] = bytes  # what is sent in place of a file
        self.in_git = False  # whether files are stored in git itself, not as large files
        self.revisions = {"main", COMMIT}
        self.names_in_git: set[str] = set()  # the same for some of them
        self.downloads = 0
        self.commits: list[list[str]] = []  # names of the files in each
        self.created: list[dict[str, Any]] = []  # what was said of each repository
        self.refuses: str | None = None  # the step of an upload that fails
        self.large: dict[str, bytes] = {}

    def is_in_git(self, name: str) -> bool:
        return self.in_git or name in self.names_in_git

    def etag(self, name: str, content: bytes) -> str:
        return git_hash(content) if self.is_in_git(name) else large(content)["oid"]

    def take(self, path: str, body: bytes, address: str) -> dict[str, Any]:
        """Answers a step of an upload."""
        if path == "/api/repos/create":
            said = json.loads(body)
            self.created.append(said)
            return {"url": f"{address}/{said['organization']}/{said['name']}"}
        if path == "/api/validate-yaml":
            return {"errors": [], "warnings": []}
        if "/preupload/" in path:
            files = [
                {"path": one["path"], "shouldIgnore": False} for one in json.loads(body)["files"]
            ]
            for one in files:
                one["uploadMode"] = "lfs" if one["path"].endswith(LARGE) else "regular"
            return {"files": files}
        if path.endswith(".git/info/lfs/objects/batch"):
            objects = [
                one | {"actions": {"upload": {"href": f"{address}/large/{one['oid']}"}}}
                for one in json.loads(body)["objects"]
            ]
            return {"transfer": "basic", "objects": objects}
        _, _, _, owner, repo, _, _ = path.split("/")  # /api/models/owner/repo/commit/main
        names = []
        for line in body.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "header":
                continue
            name = f"{owner}/{repo}/{value['path']}"
            if entry["key"] == "file":
                self.files[name] = base64.b64decode(value["content"])
                self.names_in_git.add(name)
            else:
                self.files[name] = self.large[value["oid"]]
            names.append(value["path"])
        self.commits.append(names)
        return {"commitUrl": f"{address}/{owner}/{repo}/commit/{COMMIT}", "commitOid": COMMIT}

    def listed(self, path: str) -> Any:
        """Answers what is asked about a repository, None if it is not there, or the user."""
        if path == "/api/whoami-v2":
            return {"type": "user", "name": "owner", "orgs": []}
        if not path.startswith("/api/models/"):
            return None
        _, _, _, owner, repo, *what = path.split("/")
        head = f"{owner}/{repo}/"
        found = {name: file for name, file in self.files.items() if name.startswith(head)}
        if not found:
            return None
        if what[:1] != ["tree"]:
            return {"id": f"{owner}/{repo}", "sha": COMMIT}
        listed = []
        for name, content in found.items():
            one = {"type": "file", "path": name.removeprefix(head), "size": len(content)}
            own = {} if self.is_in_git(name) else {"lfs": large(content)}
            listed.append({**one, "oid": git_hash(content), **own})
        return listed

    def handler(self) -> type[BaseHTTPRequestHandler]:
        this = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self):
                self.answer()

            def do_GET(self):
                path = self.path.partition("?")[0]
                if path.startswith("/api/"):
                    if path == "/api/whoami-v2" and not self.is_owner():
                        self.send_json({"error": "Invalid token"}, 401)
                    else:
                        found = this.listed(path)
                        self.send_json(found, 404 if found is None else 200)
                    return
                content = self.answer()
                this.downloads += bool(content)
                self.wfile.write(content)

            def do_POST(self):
                body, address = self.body(), f"http://{self.headers['Host']}"
                if this.refuses and this.refuses in self.path:
                    self.send_json({"error": "You have no space left"}, 403)
                elif not self.is_owner():
                    self.send_json({"error": "Unauthorized"}, 401)
                else:
                    self.send_json(this.take(self.path.partition("?")[0], body, address))

            def do_PUT(self):
                body, oid = self.body(), self.path.rpartition("/")[2]
                this.large[oid] = body
                is_whole = hashlib.sha256(body).hexdigest() == oid
                self.send_json({}, 200 if is_whole else 400)

            def is_owner(self) -> bool:
                return self.headers.get("Authorization") == f"Bearer {TOKEN}"

            def body(self) -> bytes:
                length = self.headers.get("Content-Length")
                if length is not None:
                    return self.rfile.read(int(length))
                chunks = []  # sent in chunks, each after its length
                while size := int(self.rfile.readline(), 16):
                    chunks.append(self.rfile.read(size))
                    self.rfile.readline()
                return b"".join(chunks)

            def send_json(self, content: Any, code: int = 200) -> None:
                sent = json.dumps(content).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            def answer(self) -> bytes:
                owner, repo, _, revision, *name = f"{self.path}////".split("/")[1:]
                address = "/".join([owner, repo, *filter(None, name)])
                content = this.files.get(address)
                known = any(path.startswith(f"{owner}/{repo}/") for path in this.files)
                kinds = {"Repo": known, "Revision": revision in this.revisions}
                kinds["Entry"] = content is not None
                error = next((f"{one}NotFound" for one, found in kinds.items() if not found), None)
                self.send_response(404 if error else 200)
                self.send_header("X-Repo-Commit", COMMIT)
                sent = b""
                if error:
                    self.send_header("X-Error-Code", error)
                else:
                    sent = this.sent(content)
                    self.send_header("ETag", f'"{this.etag(address, content)}"')
                    self.send_header("X-Linked-Size", str(len(content)))
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                return sent

            def log_message(self, *_):
                pass

        return Handler


@contextmanager
def running(hub: Hub) -> Iterator[ThreadingHTTPServer]:
    """Runs a server of a hub."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), hub.handler())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def served(cache: str) -> Iterator[Hub]:
    """Yields a hub; HF_ENDPOINT, HF_HOME and KERAS_HOME would give this process such settings."""
    import huggingface_hub.constants as constants
    from keras.src.backend import config

    hub = Hub()
    os.makedirs(cache, exist_ok=True)
    with running(hub) as server, pytest.MonkeyPatch.context() as patch:
        hub.address = f"http://127.0.0.1:{server.server_port}"
        hub.close = server.server_close
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, hub.address)
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        patch.setattr(constants, "ENDPOINT", hub.address)
        patch.setattr(constants, "HF_HUB_CACHE", cache)
        patch.setattr(constants, "HF_TOKEN_PATH", f"{cache}/token")
        patch.setattr(constants, "HF_HUB_OFFLINE", False)
        patch.setattr(config, "_KERAS_DIR", cache)
        hub.switch_off = lambda: patch.setattr(constants, "HF_HUB_OFFLINE", True)
        # Its storage for large files speaks a protocol of its own.
        patch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        yield hub
