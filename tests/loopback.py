"""A small Hub on this machine: the protocol of huggingface.co as its client needs it, over real HTTP, with faults.

The API is at http://127.0.0.1:PORT and large files at http://localhost:PORT/_cdn: one server, two origins, so that a token
that goes where it should not shows in `requests`. `fault` makes the next requests that match go wrong.
"""

import base64
import hashlib
import json
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

READ, WRITE = "hf_reader0123456789abcdef", "hf_writer0123456789abcdef"


def git_oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclass
class Repo:
    """Commits, each a table of files, and names for them."""

    private: bool = False
    gated: bool = False
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    refs: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    def commit(self, changes: Mapping[str, bytes | None], branch: str = "main") -> str:
        """Add a commit that changes these files, or deletes those that are None."""
        changed = {**self.commits.get(self.refs.get(branch, ""), {}), **changes}
        files = {name: content for name, content in changed.items() if content is not None}
        oid = hashlib.sha1(repr((len(self.log), branch, sorted(files))).encode()).hexdigest()
        self.commits[oid], self.refs[branch] = files, oid
        self.log.append(oid)
        return oid

    def find(self, revision: str) -> str | None:
        return self.refs.get(revision) or self.tags.get(revision) or (revision if revision in self.commits else None)


@dataclass
class Seen:
    """A request that came."""

    method: str
    path: str
    host: str
    headers: Message
    body: bytes

    @property
    def token(self) -> str | None:
        return self.headers.get("Authorization")


@dataclass
class Fault:
    method: str
    path: str
    kind: str
    times: int
    options: dict[str, object]


class Loopback:
    """The server, its repositories, and what it was asked."""

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.large: dict[str, bytes] = {}
        self.seen: list[Seen] = []
        self.faults: list[Fault] = []
        self.lock = threading.RLock()
        self.users = self.people()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.endpoint, self.cdn = f"http://127.0.0.1:{self.port}", f"http://localhost:{self.port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @staticmethod
    def people() -> dict[str, tuple[str, str, list[str]]]:
        """Whose tokens there are: name, role and organisations."""
        return {WRITE: ("alice", "write", ["rnnzoo"]), READ: ("bob", "read", ["rnnzoo"])}

    def reset(self) -> None:
        with self.lock:
            self.repos, self.large, self.seen, self.faults, self.users = {}, {}, [], [], self.people()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def add(self, name: str, files: dict[str, bytes], **options: bool) -> str:
        """Commit files to a repository, making it; returns the commit."""
        repo = self.repos.setdefault(name, Repo(**options))
        return repo.commit(files)

    def fault(self, method: str, path: str, kind: str, times: int = 1, **options: object) -> None:
        """Make the next `times` requests that match go wrong in some way (see Handler.act)."""
        self.faults.append(Fault(method, path, kind, times, options))

    def unspent(self) -> list[Fault]:
        """Those that nobody met with, or not as often as they were to happen."""
        return [fault for fault in self.faults if fault.times > 0]

    def asked(self, path: str = "", method: str = "") -> list[Seen]:
        return [s for s in self.seen if re.search(path, s.path) and method in ("", s.method)]

    def requests(self) -> list[tuple[str, str]]:
        """Methods and paths of the requests, without those that the client makes on its own."""
        return [(s.method, s.path) for s in self.seen if "agent-harnesses" not in s.path]

    def take(self, method: str, path: str) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if fault.times > 0 and fault.method in ("*", method) and re.search(fault.path, path):
                    fault.times -= 1
                    return fault
        return None

    def _handler(hub) -> type[BaseHTTPRequestHandler]:
        class Bound(Handler):
            pass

        Bound.hub = hub
        return Bound


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or every answer waits 40 ms for the acknowledgement of its head
    hub: Loopback

    def log_message(self, *arguments: object) -> None:
        pass

    def do_any(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.raw = self.rfile.read(length) if length else b""
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            self.raw = b"".join(self.chunks())
        self.hub.seen.append(Seen(self.command, self.path, self.headers.get("Host", ""), self.headers, self.raw))
        url = urlsplit(self.path)
        self.query = parse_qs(url.query)
        self.fault = self.hub.take(self.command, url.path)
        try:
            if self.fault is not None and self.act(self.fault):
                return
            self.route(url.path)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_any

    def chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def act(self, fault: Fault) -> bool:
        """Whether a fault is the whole answer: `status`, `reset`, `stall`, `trickle`, `json`; the others change the answer."""
        options = fault.options
        if fault.kind == "status":
            headers = dict(options.get("headers") or {})
            self.send(int(options["status"]), str(options.get("text", "")).encode(), headers)
        elif fault.kind == "reset":
            self.reset()
        elif fault.kind == "stall":
            time.sleep(float(options["seconds"]))
            self.close_connection = True
        elif fault.kind == "trickle":  # headers one by one, without end
            self.send_response(200)
            while True:
                self.send_header("X-More", "x")
                self.flush_headers()
                time.sleep(float(options["pause"]))
        elif fault.kind == "json":
            self.send(200, json.dumps(options["data"]).encode(), {"Content-Type": "application/json"})
        elif fault.kind == "then":
            options["do"]()
            return False
        else:
            return False
        return True

    def reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def send(self, status: int, content: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        sent = {"Content-Length": str(len(content)), **(headers or {})}
        for name, value in sent.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        fault = self.fault
        if fault is not None and fault.kind == "cut" and len(content) > 1:
            self.wfile.write(content[: int(fault.options.get("at", len(content) // 2))])
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if fault is not None and fault.kind == "reset-body":
            self.wfile.write(content[: len(content) // 2])
            self.wfile.flush()
            time.sleep(0.05)
            self.reset()
            return
        if fault is not None and fault.kind == "slow":  # a body in pieces, to be killed in
            for i in range(0, len(content), 1 + len(content) // 100):
                self.wfile.write(content[i : i + 1 + len(content) // 100])
                self.wfile.flush()
                time.sleep(float(fault.options.get("pause", 0.05)))
            return
        self.wfile.write(content)

    def reply(self, data: object, status: int = 200) -> None:
        self.send(status, json.dumps(data).encode(), {"Content-Type": "application/json"})

    def refuse(self, status: int, code: str = "", message: str = "") -> None:
        headers = {"X-Error-Code": code} if code else {}
        self.send(status, b"", {**headers, **({"X-Error-Message": message} if message else {})})

    # who asks, and whether they may

    def user(self) -> tuple[str, str, list[str]] | None:
        return self.hub.users.get((self.headers.get("Authorization") or "").removeprefix("Bearer "))

    def may_write(self, name: str) -> bool:
        user = self.user()
        return user is not None and user[1] == "write" and name.split("/")[0] in (user[0], *user[2])

    def readable(self, name: str) -> Repo | None:
        """The repository, or None after a refusal was sent."""
        repo, user = self.hub.repos.get(name), self.user()
        if self.headers.get("Authorization") and user is None:
            self.refuse(401, "", "Invalid credentials in Authorization header")
        elif repo is None or (repo.private and (user is None or name.split("/")[0] not in (user[0], *user[2]))):
            self.refuse(404 if user else 401, "RepoNotFound", "Repository not found")
        elif repo.gated and user is None:
            self.refuse(403, "GatedRepo", "Access to this model is restricted")
        else:
            return repo
        return None

    # the protocol

    def route(self, path: str) -> None:
        routes: list[tuple[str, Callable[..., None]]] = [
            (r"/api/whoami-v2", self.whoami),
            (r"/api/repos/create", self.create),
            (r"/api/validate-yaml", lambda: self.reply({"errors": [], "warnings": []})),
            (r"/api/models", self.models),
            (r"/api/models/([^/]+/[^/]+)/auth-check(/write)?", self.auth_check),
            (r"/api/models/([^/]+/[^/]+)(?:/revision/([^/]+))?", self.info),
            (r"/api/models/([^/]+/[^/]+)/tree/([^/]+)", self.tree),
            (r"/api/models/([^/]+/[^/]+)/paths-info/([^/]+)", self.paths),
            (r"/api/models/([^/]+/[^/]+)/preupload/([^/]+)", self.preupload),
            (r"/api/models/([^/]+/[^/]+)/commit/([^/]+)", self.commit),
            (r"/api/models/([^/]+/[^/]+)/refs", self.refs),
            (r"/api/models/([^/]+/[^/]+)/(branch|tag)/([^/]+)", self.name),
            (r"/([^/]+/[^/]+)\.git/info/lfs/objects/batch", self.batch),
            (r"/_cdn/([0-9a-f]{64})", self.blob),
            (r"/_verify", lambda: self.reply({})),
            (r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self.resolve),
        ]
        for pattern, handle in routes:
            if match := re.fullmatch(pattern, path):
                with self.hub.lock if self.command == "POST" and "commit" in path else _nothing():
                    handle(*(part and unquote(part) for part in match.groups()))
                return
        self.refuse(404, "", "no such endpoint")

    def whoami(self) -> None:
        user = self.user()
        if user is None:
            self.refuse(401, "", "Invalid credentials in Authorization header")
            return
        name, role, orgs = user
        self.reply({
            "name": name, "type": "user", "orgs": [{"name": org} for org in orgs],
            "auth": {"accessToken": {"role": role}},
        })  # fmt: skip

    def create(self) -> None:
        body = json.loads(self.raw)
        name = f"{body.get('organization') or (self.user() or ['?'])[0]}/{body['name']}"
        if not self.may_write(name):
            self.refuse(403, "", "You don't have the rights to create a model there")
            return
        answer = {"url": f"{self.hub.endpoint}/{name}", "name": name, "id": name}
        if name in self.hub.repos:
            self.reply(answer, 409)
            return
        self.hub.repos[name] = Repo(private=body.get("visibility") == "private" or bool(body.get("private")))
        self.hub.repos[name].commit({".gitattributes": b"*.safetensors filter=lfs\n"})
        self.reply(answer)

    def auth_check(self, name: str, write: str | None) -> None:
        if self.readable(name) is None:
            return
        if write and not self.may_write(name):
            self.refuse(403, "", f"You have no write access to {name}")
        else:
            self.reply({})

    def models(self) -> None:
        author = (self.query.get("author") or [""])[0]
        self.reply(
            [self.describe(n, r, r.refs["main"]) for n, r in self.hub.repos.items() if n.startswith(f"{author}/")]
        )

    def describe(self, name: str, repo: Repo, commit: str) -> dict[str, object]:
        files = repo.commits[commit]
        card = files.get("README.md", b"").decode()
        library = re.search(r"^library_name: (.+)$", card, re.M)
        siblings = [
            {"rfilename": p, "size": len(c), "blobId": git_oid(c)}
            | ({"lfs": {"sha256": oid(p, c), "size": len(c), "pointerSize": 134}} if is_large(p) else {})
            for p, c in files.items()
        ]
        return {
            "id": name, "sha": commit, "private": repo.private, "gated": repo.gated, "siblings": siblings,
            "lastModified": "2026-01-02T03:04:05.000Z", "tags": ["rnn"], **({"library_name": library[1]} if library else {}),
        }  # fmt: skip

    def at(self, name: str, revision: str | None) -> tuple[Repo, str] | None:
        repo = self.readable(name)
        if repo is None:
            return None
        commit = repo.find(revision or "main")
        if commit is None:
            self.refuse(404, "RevisionNotFound", "Invalid rev id")
            return None
        return repo, commit

    def info(self, name: str, revision: str | None) -> None:
        if place := self.at(name, revision):
            self.reply(self.describe(name, *place))

    def entry(self, path: str, content: bytes) -> dict[str, object]:
        entry: dict[str, object] = {"type": "file", "path": path, "size": len(content), "oid": git_oid(content)}
        if is_large(path):
            entry["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
        return entry

    def tree(self, name: str, revision: str) -> None:
        if place := self.at(name, revision):
            self.reply([self.entry(*item) for item in place[0].commits[place[1]].items()])

    def paths(self, name: str, revision: str) -> None:
        if place := self.at(name, revision):
            paths = parse_qs(self.raw.decode())["paths"]
            files = place[0].commits[place[1]]
            self.reply([self.entry(path, files[path]) for path in paths if path in files])

    def preupload(self, name: str, revision: str) -> None:
        if self.readable(name) is None:
            return
        if not self.may_write(name):
            self.refuse(403, "", f"You have no write access to {name}")
            return
        repo = self.hub.repos[name]
        if repo.find(revision) is None:
            self.refuse(404, "RevisionNotFound", "Invalid rev id")
            return
        files = repo.commits[repo.find(revision)]
        self.reply({"files": [
            {
                "path": f["path"], "uploadMode": "lfs" if is_large(f["path"]) else "regular", "shouldIgnore": False,
                "oid": oid(f["path"], files[f["path"]]) if f["path"] in files else None,
            }
            for f in json.loads(self.raw)["files"]
        ]})  # fmt: skip

    def batch(self, name: str) -> None:
        answer = []
        for wanted in json.loads(self.raw)["objects"]:
            item = {"oid": wanted["oid"], "size": wanted["size"]}
            if wanted["oid"] not in self.hub.large:
                href = f"{self.hub.cdn}/_cdn/{wanted['oid']}"
                item["actions"] = {"upload": {"href": href}, "verify": {"href": f"{self.hub.cdn}/_verify"}}
            answer.append(item)
        self.send(200, json.dumps({"objects": answer}).encode(), {"Content-Type": "application/vnd.git-lfs+json"})

    def blob(self, oid: str) -> None:
        if self.command == "PUT":
            if hashlib.sha256(self.raw).hexdigest() != oid:
                self.refuse(400)
                return
            self.hub.large[oid] = self.raw
            self.send(200)
        elif oid in self.hub.large:
            self.body(self.hub.large[oid], {"ETag": f'"{oid}"'})
        else:
            self.refuse(404)

    def commit(self, name: str, revision: str) -> None:
        if self.readable(name) is None:
            return
        repo = self.hub.repos[name]
        lines = [json.loads(line) for line in self.raw.splitlines()]
        header = next(line["value"] for line in lines if line["key"] == "header")
        branch = revision
        if not self.may_write(name):
            self.refuse(403, "", f"You have no write access to {name}")
            return
        if branch not in repo.refs:
            self.refuse(404, "RevisionNotFound", "Invalid rev id")
            return
        if "parentCommit" in header and header["parentCommit"] != repo.refs.get(branch):
            self.refuse(412, "", "A commit has happened since")
            return
        changes: dict[str, bytes | None] = {}
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                changes[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                changes[value["path"]] = self.hub.large[value["oid"]]
            elif line["key"] == "deletedFile":
                changes[value["path"]] = None
        extra = {}
        if "create_pr" in self.query:
            repo.refs["refs/pr/1"], branch = repo.refs[branch], "refs/pr/1"
            extra = {"pullRequestUrl": f"{self.hub.endpoint}/{name}/discussions/1"}
        oid = repo.commit(changes, branch)
        if self.fault is not None and self.fault.kind == "lost":  # done, and the answer never comes
            self.reset()
            return
        self.reply({"commitUrl": f"{self.hub.endpoint}/{name}/commit/{oid}", "commitOid": oid, **extra})

    def refs(self, name: str) -> None:
        if repo := self.readable(name):
            tables = ((repo.refs, "heads"), (repo.tags, "tags"))
            lists = [[{"name": n, "ref": f"refs/{k}/{n}", "targetCommit": c} for n, c in t.items()] for t, k in tables]
            self.reply({"branches": lists[0], "tags": lists[1], "converts": []})

    def name(self, name: str, kind: str, revision: str) -> None:
        repo = self.readable(name)
        if repo is None:
            return
        body = json.loads(self.raw or b"{}")
        table = repo.refs if kind == "branch" else repo.tags
        wanted = revision if kind == "branch" else body["tag"]
        if wanted in table:
            self.refuse(409, "", "Reference already exists")
            return
        table[wanted] = repo.find(body.get("startingPoint") or "main") if kind == "branch" else repo.find(revision)
        self.reply({})

    def resolve(self, name: str, revision: str, path: str) -> None:
        place = self.at(name, revision)
        if place is None:
            return
        repo, commit = place
        if path not in repo.commits[commit]:
            self.send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit})
            return
        content = repo.commits[commit][path]
        headers = {"X-Repo-Commit": commit, "ETag": f'"{oid(path, content)}"'}
        if is_large(path):
            digest = oid(path, content)
            self.hub.large.setdefault(digest, content)
            headers |= {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(content))}
            headers |= {"Location": f"{self.hub.cdn}/_cdn/{digest}"}
        if self.fault is not None and self.fault.kind == "headers":
            headers |= self.fault.options["headers"]
        if is_large(path):
            self.send(302, b"", headers)
        else:
            self.body(content, headers)

    def body(self, content: bytes, headers: dict[str, str]) -> None:
        fault = self.fault
        if fault is not None and fault.kind == "flip":
            content = content[:-1] + bytes([content[-1] ^ 1])
        if fault is not None and fault.kind == "short":
            content = content[: len(content) // 2]
        if fault is not None and fault.kind == "content":
            content = fault.options["content"]
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if wanted and self.command == "GET":
            at = int(wanted[1])
            place = {"Content-Range": f"bytes {at}-{len(content) - 1}/{len(content)}"}
            self.send(206, content[at:], {**headers, **place})
        else:
            self.send(200, content, headers)


def is_large(path: str) -> bool:
    return path.endswith(".safetensors")


def oid(path: str, content: bytes) -> str:
    return hashlib.sha256(content).hexdigest() if is_large(path) else git_oid(content)


@contextmanager
def _nothing() -> Iterator[None]:
    yield
