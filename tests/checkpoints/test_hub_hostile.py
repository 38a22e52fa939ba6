"""Answers of a Hub that are too long, too slow, of odd types or made to deceive, and tokens that are none."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hubs import REPO, Here, Run
from huggingface_hub import constants
from loopback import WRITE

from zoo.checkpoints.hub import browse, budget, client_internals, guard, settings
from zoo.errors import NetworkError
from zoo.utils.text import redact

httpx2 = pytest.importorskip("httpx2")


def test_a_compressed_answer_is_refused_and_was_not_asked_for(here: Here, run: Run) -> None:
    here.hub.fault("GET", "whoami", "status", status=200, text="{}", headers={"Content-Encoding": "gzip"})
    code, _, err = run("whoami")
    assert code == 1
    assert "compressed answer" in err
    assert here.hub.asked("whoami")[0].headers["Accept-Encoding"] == "identity"


def test_an_answer_without_end_is_refused(here: Here, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MAX_ANSWER", 1000)
    here.hub.fault("GET", "whoami", "status", status=200, text=f'{{"name": "{"a" * 2000}"}}')
    code, _, err = run("whoami")
    assert code == 1
    assert "more than 1,000 bytes" in err


def test_of_the_body_of_a_failure_only_the_beginning_is_read(
    here: Here, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "MAX_REFUSAL", 1000)
    here.hub.fault("GET", "whoami", "status", status=418, text="a" * 10**6)
    code, _, err = run("whoami")
    assert code == 1
    assert "refuses the request (418)" in err


def test_a_listing_whose_pages_never_end_is_given_up(here: Here, run: Run) -> None:
    following = {"Link": f'<{here.hub.endpoint}/api/models?author=rnnzoo&cursor=1>; rel="next"'}
    here.hub.fault("GET", "/api/models", "status", times=10**6, status=200, text="[]", headers=following)
    code, _, err = run("list", "--remote")
    assert code == 1
    assert "more than 100 pages" in err


@pytest.mark.parametrize("path", ["whoami", "config.json"])
def test_a_trickle_ends_with_the_time_limit(here: Here, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    here.publish()
    monkeypatch.setattr(settings, "TIMEOUT", 1.0)
    here.hub.fault("GET", path, "slow", pause=0.1)
    began = time.monotonic()
    with pytest.raises(NetworkError, match=r"sends too slowly|does not answer in time \(1 s\)"):
        browse.login() if path == "whoami" else browse.describe(REPO, None)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("verb", ["pull", "show", "list", "whoami"])
def test_headers_that_trickle_end_with_the_time_limit(here: Here, run: Run, verb: str) -> None:
    here.publish()
    here.hub.fault("*", "", "trickle", times=99, pause=0.05)
    arguments = {"pull": [f"hf://{REPO}"], "show": [f"hf://{REPO}"], "list": ["--remote"], "whoami": []}[verb]
    began = time.monotonic()
    code, _, err = run(verb, *arguments, "--timeout", "0.8")
    assert code == 1
    assert re.search(r"sends too slowly: .*Try later, or with a longer timeout|does not answer in time", err)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("kind", ["cut", "reset", "status"])
def test_tries_and_waits_end_with_the_time_limit(here: Here, run: Run, kind: str) -> None:
    here.publish()
    here.hub.fault("*", "", kind, times=99, status=503)
    code, _, err = run("list", "--remote", "--timeout", "8")
    assert code == 1
    assert "Gave up after" in err
    assert 0 < sum(here.slept) < 8


@pytest.mark.parametrize("location", ["http://[::1", "http://h:99999/", "file:///etc/passwd", "http://"])
def test_a_redirect_to_no_address_is_refused_at_once(here: Here, run: Run, location: str) -> None:
    here.hub.fault("GET", "/api/models", "status", times=99, status=302, headers={"Location": location})
    code, _, err = run("list", "--remote")
    assert code == 1
    assert f"redirects to {location}, which is not a web address" in err
    assert here.slept == []


def test_a_server_that_refuses_connections_is_tried_three_times(
    here: Here, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{free.getsockname()[1]}")
        code, _, err = run("list", "--remote")
    assert code == 1
    assert "cannot be reached (it refuses the connection)" in err
    assert here.slept == [1, 2]


def test_the_look_up_of_a_name_ends_with_the_time_limit() -> None:
    closed = threading.Event()

    def connect() -> SimpleNamespace:
        time.sleep(0.3)
        return SimpleNamespace(close=closed.set)

    with pytest.raises(httpx2.ConnectTimeout):
        client_internals.within(0.05, connect)
    assert closed.wait(5)
    assert client_internals.within(5, lambda: 3) == 3


def test_only_a_file_that_comes_fast_enough_takes_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(budget, "time", SimpleNamespace(monotonic=lambda: now[0]))
    spent = budget.Budget(10.0)
    with spent.running(), spent.transferring() as transfer:
        now[0] = 5.0
        transfer.advance(40 * budget.MIN_RATE)
        now[0] = 30.0
        assert spent.left() == 10.0
        now[0] = 50.0
        assert spent.left() == -10.0
    assert spent.left() == 0.0
    spent.renew()
    with spent.running():
        now[0] = 58.0
    assert spent.left() == 2.0
    assert spent.spent() == 8.0


@pytest.mark.parametrize("answer", [[], {"name": 3}, {"orgs": [3]}, {"auth": [1]}, "text", None])
def test_an_identity_of_odd_types_is_one_line(here: Here, run: Run, answer: object) -> None:
    here.hub.fault("GET", "whoami", "json", data=answer)
    code, _, err = run("whoami")
    assert code == 1
    assert "that rnnzoo cannot read" in err


@pytest.mark.parametrize("change", [{"id": 3}, {"tags": 3}, {"tags": [3]}, {"siblings": 3}, {"lastModified": 3}])
def test_a_description_of_odd_types_is_one_line(here: Here, run: Run, change: dict[str, object]) -> None:
    here.publish()
    here.hub.fault("GET", f"/api/models/{REPO}$", "json", data={"id": REPO, "sha": "0" * 40, "siblings": [], **change})
    code, out, err = run("show", f"hf://{REPO}")
    assert code == 1, (out, err)
    assert len(err.strip().splitlines()) == 1


def test_names_on_the_hub_cannot_print_lines_or_turn_text(here: Here, run: Run) -> None:
    change = {
        "id": REPO,
        "sha": here.publish(),
        "siblings": [],
        "tags": ["rnnzoo", "b\u2066\x1b[2J", "a\nVerified.\u202e"],
    }
    here.hub.fault("GET", f"/api/models/{REPO}$", "json", data=change)
    code, out, _ = run("show", f"hf://{REPO}")
    assert code == 0
    assert "a Verified.?" in out
    assert not {"\u202e", "\u2066", "\x1b"} & set(out)


@pytest.mark.parametrize(
    "name", ["rnnzoo/a\nb", "rnnzoo/..", "rnnzoo/a--b", "rnnzoo", "rnnzoo/a.git", "rnnzoo/a b", ""]
)
def test_models_that_cannot_exist_are_not_listed(here: Here, run: Run, name: str) -> None:
    listing = [{"id": name, "tags": ["rnnzoo"]}, {"id": "rnnzoo/lstm", "tags": ["rnnzoo"]}]
    here.hub.fault("GET", "/api/models", "json", data=listing)
    code, out, _ = run("list", "--remote", "--json")
    assert code == 0
    assert [row["repo"] for row in json.loads(out)] == ["rnnzoo/lstm"]


@pytest.mark.parametrize(
    "change", [{"sha": 3}, {"sha": "x"}, {"private": 3}, {"tags": [3, "rnnzoo"]}, {"pipeline_tag": 3}, {"id": 3}]
)
def test_a_listing_of_odd_types_is_one_line(here: Here, run: Run, change: dict[str, object]) -> None:
    here.hub.fault("GET", "/api/models", "json", data=[{"id": "rnnzoo/lstm", "tags": ["rnnzoo"], **change}])
    code, out, err = run("list", "--remote")
    assert code == 1, (out, err)
    assert "that rnnzoo cannot read" in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_HUB_DOWNLOAD_TIMEOUT", "abc"),
        ("HF_HUB_ETAG_TIMEOUT", "-1"),
        ("HF_HUB_ETAG_TIMEOUT", "1.5"),
        ("HF_ENDPOINT", "http://[::1"),
    ],
)
@pytest.mark.parametrize("verb", [("pull", "hf://me/m"), ("cache", "list"), ("list", "--remote")])
def test_a_variable_that_the_client_cannot_read_is_named(
    here: Here, run: Run, monkeypatch: pytest.MonkeyPatch, name: str, value: str, verb: tuple[str, ...]
) -> None:
    monkeypatch.setenv(name, value)
    code, _, err = run(*verb)
    assert code == 2
    assert err.splitlines()[-1].startswith(f"rnnzoo: {name} is ")


@pytest.mark.parametrize("token", ["test", "null", "true", "1234567890123456789", "not a token at all"])
def test_what_is_not_shaped_like_a_token_redacts_nothing(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    text = json.dumps({"split": "test", "a": None, "b": True, "n": 1234567890123456789, "c": "not a token at all"})
    assert redact(text) == text


@pytest.mark.parametrize("content", [None, b"\xff\xfe\xff", "pipe"], ids=["folder", "not text", "pipe"])
def test_a_token_file_that_cannot_be_read_is_one_line(
    here: Here, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | str | None
) -> None:
    path = tmp_path / "token"
    path.mkdir() if content is None else os.mkfifo(path) if content == "pipe" else path.write_bytes(content)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(path))
    assert run("list")[0] == 0
    code, _, err = run("whoami")
    assert code == 1
    assert "cannot be read" in err
    assert len(err.strip().splitlines()) == 1


def test_signatures_of_addresses_are_not_printed() -> None:
    address = "https://cdn.example/a.bin?X-Amz-Signature=0123abcd&Expires=3"
    assert redact(f"cannot read '{address}'.") == "cannot read 'https://cdn.example/a.bin?***'."
    assert redact("https://a.example/b?page=2") == "https://a.example/b?page=2"


def test_a_token_goes_through_no_proxy_unencrypted(here: Here, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", WRITE)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    code, _, err = run("whoami")
    assert code == 1
    assert "proxy.example unencrypted" in err
    assert not here.hub.seen


@pytest.mark.parametrize("proxy", ["socks5://nothing:1", "::::", "socks9://x", "http://h:99999"])
def test_a_proxy_that_cannot_be_used_is_one_line(here: Here, proxy: str) -> None:
    """In a process of its own: the client keeps its connections, and the proxy with which it made them."""
    code = "from rnnzoo_cli.main import main; import sys; sys.argv = ['rnnzoo', 'whoami', '--timeout', '2']; main()"
    settings = {**os.environ, "HF_TOKEN": WRITE, "ALL_PROXY": proxy, "HF_ENDPOINT": "https://hub.example"}
    settings.pop("HF_HUB_OFFLINE", None)
    done = subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr
