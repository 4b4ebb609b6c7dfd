"""The command line, as somebody uses it."""

from __future__ import annotations

import importlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from memtrace import cli
from memtrace.harness.rules import RULES
from memtrace.harness.scripted_model.openai_api import Step
from memtrace.harness.scripted_model.server import ModelServer
from memtrace.reference import Memory, PastTurn, TurnLog

NAME_ONE = "name a memory, such as memory_under_test:make (memtrace init writes one)"
ADAPTERS = """
from memtrace.broken.tiny import TinyMemory as Good
from memtrace.errors import UsageError
from memtrace.broken.users import NamesTheUser as Wrong

class Boasting(Good):
    capabilities = Good.capabilities | {"handoff", "flying", "fork"}

class Modest(Good):
    capabilities = Good.capabilities - {"search", "session"}

def raising(env):
    raise RuntimeError("no database here")

def telling(env):
    raise UsageError("the shop\\nis closed")

def refusing_sqlite(env):
    if env.store_url.startswith("sqlite:"):
        raise RuntimeError(f"no driver for {env.store_url}")
    return Good(env)

def refusing(env):
    raise RuntimeError(f"no driver for {env.store_url}")

def at_length(env):
    raise RuntimeError("no database here\\nnor there")

def leaving(env):
    raise SystemExit("no licence")

class Answers(Good):
    def turn(self, caller, text):
        return super().turn(caller, text).text

class Numbers(Good):
    def stream(self, caller, text):
        yield from enumerate(super().stream(caller, text))

class Silent(Good):
    def stream(self, caller, text):
        list(super().stream(caller, text))

class Hiding(Good):
    @property
    def capabilities(self):
        raise KeyError("turns")

class Shapeless(Good):
    identity = "user"
    refusals = ("Refused",)
    allowed = ["users.no-foreign-memory"]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that is no clone and no package, where somebody's adapters are."""
    (tmp_path / "adapters.py").write_text(ADAPTERS)
    monkeypatch.chdir(tmp_path)
    for name in ("PYTEST_ADDOPTS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def memtrace(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """The installed command, in a process of its own."""
    command = [str(Path(sys.executable).with_name("memtrace")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line of an error."""
    printed = capsys.readouterr()
    assert printed.out == ""
    [line] = printed.err.splitlines()
    return line


# check


def test_check_finds_a_memory_in_the_directory_it_is_called_in(here: Path) -> None:
    done = memtrace("check", "adapters:Good", "--rule", "users.own-memory-recalled", cwd=here)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].endswith("0 inconclusive, 0 violated")
    assert not (here / ".pytest_cache").exists()


def test_check_fails_and_what_it_prints_shows_the_same_again(here: Path) -> None:
    done = memtrace("check", "adapters:Wrong", "--rule", "users.id-not-in-prompt", cwd=here)
    assert done.returncode == 1
    assert "users.id-not-in-prompt VIOLATED" in done.stdout
    again = next(line for line in done.stdout.splitlines() if "again: " in line).partition("again: ")[2]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    rerun = subprocess.run(again, shell=True, cwd=here, env=environment, capture_output=True, text=True, check=False)
    assert rerun.returncode == 1
    assert "users.id-not-in-prompt VIOLATED" in rerun.stdout


def test_what_a_memory_logs_does_not_bury_what_is_wrong_with_it(here: Path) -> None:
    (here / "chatty.py").write_text(
        "import logging\nfrom adapters import Wrong\n"
        "class Chatty(Wrong):\n    def turn(self, caller, text):\n"
        "        logging.getLogger('chatty').warning('a turn begins')\n        return super().turn(caller, text)\n"
    )
    done = memtrace("check", "chatty:Chatty", "--rule", "users.id-not-in-prompt", "--scripts", "0", cwd=here)
    assert "users.id-not-in-prompt VIOLATED" in done.stdout
    assert "a turn begins" not in done.stdout
    again = next(line for line in done.stdout.splitlines() if "again: " in line).partition("again: ")[2]
    words = [sys.executable, "-m", *shlex.split(again)]
    assert "a turn begins" in subprocess.run(words, cwd=here, capture_output=True, text=True, check=False).stdout


def test_check_goes_by_no_options_of_the_project_it_is_called_in(here: Path) -> None:
    (here / "pytest.ini").write_text("[pytest]\naddopts = --cov=nosuch -k nothing\n")
    done = memtrace("check", "adapters:Good", "--rule", "users.own-memory-recalled", cwd=here)
    assert done.returncode == 0


def test_check_writes_what_it_is_asked_for(here: Path) -> None:
    reports = ["--json", "out/l.json", "--junit", "out/l.xml", "--markdown", "out/l.md", "--history", "kept"]
    rule = "users.reply-goes-to-its-caller"
    done = memtrace("check", "adapters:Good", "--rule", rule, *reports, cwd=here)
    assert done.returncode == 0
    assert {path.name for path in (here / "out").iterdir()} == {"l.json", "l.xml", "l.md"}
    assert rule in {row["rule"] for row in json.loads((here / "out" / "l.json").read_text())["rules"]}
    kept = sorted((here / "kept").glob("*.history.jsonl"))
    assert kept
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in kept)
    assert (here / "kept" / ".gitignore").read_text() == "*\n"
    assert not any(mark in path.name for path in kept for mark in "[] *?")
    shown = memtrace("show", str(kept[0]))
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "answer prompt" in shown.stdout


def test_what_the_project_makes_an_error_of_is_no_verdict(here: Path) -> None:
    (here / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\nan_option_of_some_plugin = yes\n")
    (here / "warning.py").write_text(
        "import warnings\nfrom memtrace.broken.tiny import TinyMemory\n"
        "class Warning(TinyMemory):\n    def turn(self, caller, text):\n"
        "        warnings.warn('soon to go', DeprecationWarning)\n        return super().turn(caller, text)\n"
    )
    done = memtrace("check", "warning:Warning", "--rule", "users.reply-goes-to-its-caller", "--scripts", "0", cwd=here)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("option", ["--json", "--markdown", "--history"])
def test_a_report_that_cannot_be_written_is_said_before_anything_runs(here: Path, option: str) -> None:
    (here / "file").write_text("")
    done = memtrace("check", "adapters:Good", option, "file/inside", cwd=here)
    assert done.returncode == 4
    [line] = filter(None, done.stderr.splitlines())
    assert "file/inside" in line
    assert "passed" not in done.stdout


def test_a_boundary_is_a_selection(here: Path) -> None:
    done = memtrace("check", "adapters:Good", "--rule", "authors", cwd=here)
    assert done.returncode == 0
    assert "authors.once-in-prompt" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["check", "nosuch"], 4, "memtrace: memory 'nosuch' is unknown: give one of fastaiagent"),
        (["check", "adapters"], 4, "or package.module:factory; did you mean adapters:make, or what its factory"),
        (["check", "./adapters.py"], 4, "; did you mean adapters:make, or what its factory"),
        (["check", "adapters:raising"], 4, "the factory raised RuntimeError: no database here"),
        (["check", "adapters:Good", "--rule", "users.nosuch"], 4, "there is no rule 'users.nosuch'"),
        (["check", "adapters:Good", "--store", "oracle"], 4, "--store 'oracle' is neither a store's URL nor one of"),
        (["check", "adapters:telling"], 4, "memtrace: the shop is closed"),
        (["check", "adapters:Good", "--json", "adapters.py/x"], 4, "memtrace: --json adapters.py/x: File exists"),
        (["prove", "1", "--memory", "adapters:telling"], 4, "memtrace: the shop is closed"),
        (["prove", "9"], 4, "there is no proof 9"),
        (["prove", "--memory", "nosuch"], 4, "memtrace: memory 'nosuch' is unknown"),
        (["power", "nosuch"], 4, "there is no rule 'nosuch'"),
    ],
)
def test_what_cannot_be_run_is_one_line(here: Path, arguments: list[str], status: int, line: str) -> None:
    done = memtrace(*arguments, cwd=here)
    assert (done.returncode, done.stdout) == (status, "")
    [printed] = done.stderr.splitlines()
    assert printed.startswith("memtrace: ")
    assert line in printed


def test_a_check_that_is_interrupted_says_so_by_its_status(here: Path) -> None:
    read, write = os.pipe()
    (here / "slow.py").write_text(
        "import os, threading\nfrom memtrace.broken.tiny import TinyMemory\n"
        "class Slow(TinyMemory):\n    def turn(self, caller, text):\n"
        f"        os.write({write}, b'.')\n        threading.Event().wait(3)\n"
    )
    command = [str(Path(sys.executable).with_name("memtrace")), "check", "slow:Slow"]
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    heeding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # these tests may run where Ctrl-C is ignored
    with subprocess.Popen(command, cwd=here, pass_fds=[write], preexec_fn=heeding, **quiet) as running:
        os.close(write)
        assert os.read(read, 1) == b".", "it ended before its first turn"
        os.close(read)
        running.send_signal(signal.SIGINT)
        said = running.communicate()
    assert running.returncode == 2, said


@pytest.mark.parametrize("module", ["proofs.__main__", "memtrace.broken.power"])
def test_so_do_the_proofs_and_the_matrix(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"{module}._run", interrupted)
    assert importlib.import_module(module).main([]) == 2


# The parser


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "memtrace: the following arguments are required: COMMAND (see memtrace --help)"),
        (["check"], "memtrace: the following arguments are required: memory (see memtrace check --help)"),
        (["check", "x", "--bogus"], "memtrace: check does not know '--bogus' (see memtrace check --help)"),
        (["prove", "one"], "memtrace: argument N: invalid int value: 'one' (see memtrace prove --help)"),
        (["adapter", "check"], f"memtrace: adapter check: {NAME_ONE}"),
        (["show", "nosuch.jsonl"], "memtrace: nosuch.jsonl: No such file or directory"),
        (
            ["check", "x", "--scripts", "-3"],
            "memtrace: argument --scripts: '-3' is no number of scripts (see memtrace check --help)",
        ),
    ],
)  # fmt: skip
def test_misuse_is_one_line_and_status_4(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], line: str
) -> None:
    assert cli.main(arguments) == 4
    assert one_line(capsys) == line


def test_a_file_that_is_no_history_is_said_to_be_none(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "file.jsonl").write_text('{"event": "TurnStarted"}\n')
    assert cli.main(["show", "file.jsonl"]) == 4
    assert one_line(capsys).startswith("memtrace: file.jsonl is no recorded history (line 1: ")


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cli, "find_spec", lambda name: None if name == "msgspec" else object())
    for command in ("check reference", "prove", "adapter capabilities", "show x", "power"):
        assert cli.main(command.split()) == 4
        assert one_line(capsys) == "memtrace: this needs msgspec, which is not here: pip install 'memtrace-otel[suite]'"


def test_the_rules_can_be_read_without_the_suite() -> None:
    absent = "hypothesis msgspec pytest httpx numpy opentelemetry.sdk"
    code = f"""
import sys
from memtrace import cli
sys.modules.update(dict.fromkeys({absent!r}.split()))
cli.find_spec = lambda name: None
print([cli.main(["rules", *more]) for more in ([], ["--json"], ["users"], ["users.no-foreign-memory"])])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "[0, 0, 0, 0]"
    assert "# users.no-foreign-memory" in done.stdout
    assert "See it fail" not in done.stdout


def test_the_command_line_itself_needs_opentelemetrys_api_alone() -> None:
    heavy = "['opentelemetry.sdk', 'pytest', 'msgspec', 'httpx', 'numpy', 'anyio']"
    code = f"import memtrace.cli, sys; print([m for m in {heavy} if m in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_a_reader_who_leaves_early_is_no_error() -> None:
    command = f"{Path(sys.executable).with_name('memtrace')} rules --json | head -c 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[", "")


# rules


def test_rules_lists_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rules"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(RULES)


def test_rules_lists_a_boundarys_or_a_globs(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["rules", "export"])
    assert len(capsys.readouterr().out.splitlines()) == sum(rule.boundary == "export" for rule in RULES.values())
    cli.main(["rules", "*.own-memory-*", "--json"])
    assert [rule["id"] for rule in json.loads(capsys.readouterr().out)] == ["users.own-memory-recalled"]


@pytest.mark.parametrize("rule", RULES)
def test_rules_shows_each_rules_page(capsys: pytest.CaptureFixture[str], rule: str) -> None:
    assert cli.main(["rules", rule]) == 0
    page = capsys.readouterr().out
    assert page.startswith(f"# {rule}\n")
    for part in ("## What goes wrong", "## How it looks", "## The usual cause", "## How to fix it"):
        assert part in page
    assert f"--rule {rule}" in page


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("no-foreign", "users.no-foreign-memory"),
        ("users.no-foriegn-memory", "users.no-foreign-memory"),
        ("authors.forget-fact", "processes.forget-fact"),
    ],
)
def test_a_rule_that_is_not_there_is_answered_with_near_ones(
    capsys: pytest.CaptureFixture[str], wrong: str, near: str
) -> None:
    assert cli.main(["rules", wrong]) == 4
    assert near in one_line(capsys).partition("near it: ")[2]


# adapter, init


def test_every_complaint_about_an_adapter_is_printed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["adapter", "check", "adapters:Boasting"]) == 4
    printed = capsys.readouterr().out
    assert printed.splitlines()[0] == "adapters:Boasting cannot be judged yet:"
    for complaint in ("'flying' does not exist", "no method 'handoff'", "no method 'handoff_call'", "no method 'fork'"):
        assert complaint in printed


def test_a_factory_that_raises_is_a_complaint(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["adapter", "check", "adapters:raising"]) == 4
    assert capsys.readouterr().out.splitlines()[1:] == ["  - the factory raised RuntimeError: no database here"]


@pytest.mark.parametrize(
    ("name", "complaints"),
    [
        ("at_length", ["the factory raised RuntimeError: no database here nor there"]),
        ("leaving", ["the factory raised SystemExit: no licence"]),
        ("Answers", ["a turn must return memtrace.model.Reply, not str"]),
        ("Numbers", ["stream() must yield str, not tuple"]),
        ("Silent", ["stream() must be a generator or an async generator, not return NoneType"]),
        ("Hiding", ["reading its capabilities raised KeyError: 'turns'"]),
        (
            "Shapeless",
            [
                "identity must be a tuple of names of Caller's fields, not 'user'",
                "refusals must be a tuple of exception types, not ('Refused',)",
                "allowed must be a dict, not list",
            ],
        ),
    ],
)
def test_an_adapter_that_breaks_the_contract_is_told_where(
    here: Path, capsys: pytest.CaptureFixture[str], name: str, complaints: list[str]
) -> None:
    assert cli.main(["adapter", "check", f"adapters:{name}"]) == 4
    assert capsys.readouterr().out.splitlines()[1:] == [f"  - {complaint}" for complaint in complaints]


def test_what_an_adapter_could_claim_is_said(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["adapter", "check", "adapters:Modest"]) == 0
    printed = capsys.readouterr().out
    assert "it has the methods of 'search' and does not claim it" in printed
    assert "not exercised for want of: " in printed


def test_an_adapter_is_checked_on_the_stores_that_are_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check = ["adapter", "check", "adapters:refusing_sqlite"]
    assert cli.main(check) == 4
    assert "  - the factory raised RuntimeError: no driver for sqlite:///" in capsys.readouterr().out
    assert cli.main([*check, "--store", "nosuch://ann:hunter2@h/d,other://h"]) == 0
    printed = capsys.readouterr().out
    assert "adapters:refusing_sqlite can be judged on nosuch://ann:***@h/d\n" in printed
    assert "adapters:refusing_sqlite can be judged on other://h\n" in printed
    assert "hunter2" not in printed


def test_what_is_wrong_on_a_store_of_the_adopters_names_it_without_its_password(here: Path) -> None:
    url = "nosuch://ann:hunter2@h/d"
    line = "the factory raised RuntimeError: no driver for nosuch://ann:***@h/d"
    checked = memtrace("check", "adapters:refusing", "--store", url, cwd=here)
    proved = memtrace("prove", "5", "--memory", "adapters:refusing", "--store", f"sqlite,{url}", cwd=here)
    for done in (checked, proved):
        assert (done.returncode, done.stdout, done.stderr) == (4, "", f"memtrace: {line}\n")
    told = memtrace("check", "adapters:telling", "--store", url, cwd=here)
    assert told.stderr == "memtrace: --store nosuch://ann:***@h/d: the shop is closed\n"


def test_no_option_is_named_that_was_not_given(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["adapter", "check", "nosuch:X"]) == 4
    assert one_line(capsys) == "memtrace: memory 'nosuch:X': cannot import 'nosuch': No module named 'nosuch'"


def test_services_wants_no_kind(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["services"]) == 4
    assert one_line(capsys) == "memtrace: the following arguments are required: action (see memtrace services --help)"


def test_what_init_writes_passes_as_it_stands(here: Path) -> None:
    assert memtrace("init", cwd=here).returncode == 0
    assert (here / ".github" / "workflows" / "memory.yml").is_file()
    assert memtrace("adapter", "check", "memory_under_test:make", cwd=here).returncode == 0
    done = memtrace("check", "memory_under_test:make", cwd=here)
    assert done.returncode == 0
    assert "INCONCLUSIVE" not in done.stdout


def test_init_overwrites_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "memory_under_test.py").write_text("mine")
    assert cli.main(["init"]) == 4
    assert "memory_under_test.py is there already" in one_line(capsys)
    assert (here / "memory_under_test.py").read_text() == "mine"
    assert not (here / ".github").exists()


# learn


@pytest.fixture
def past(here: Path) -> Path:
    """What three users said to an agent, in the files of its memory."""
    Memory(location=here / "memory.db", agent_id="shop").close()
    log = TurnLog(here / "turns.db")
    for user in ("ann", "ben", "cyd"):
        log.add(PastTurn("", "shop", user, "The shop closes at noon.", at=time.time()))
    return here


def learn(*options: str, url: str = "http://127.0.0.1:9/v1") -> int:
    return cli.main(["learn", "--agent", "shop", "--model-url", url, "--model", "small", *options])


@pytest.fixture
def extractor() -> object:
    """A model server that finds one fact in everything; its URL."""

    class Script:
        def complete(self, request: object, **labels: object) -> Step:
            return Step('["The shop closes at noon."]')

    with ModelServer() as server:
        yield server.register(Script())  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore::memtrace.identity.IdKeyWarning")
def test_learn_mines_each_turn_once_and_tells_what_it_kept(
    past: Path, extractor: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert learn("--dry-run", url=extractor) == 0
    assert capsys.readouterr().out.endswith("3 turns read, 1 fact would be kept\n")
    assert learn(url=extractor) == 0
    assert capsys.readouterr().out == "  The shop closes at noon.\n3 turns read, 1 fact kept\n"
    assert learn(url=extractor) == 0
    assert capsys.readouterr().out == "0 turns read, 0 facts kept\n"


@pytest.mark.filterwarnings("ignore::memtrace.identity.IdKeyWarning")
def test_learn_leaves_a_turn_that_failed_for_the_next_time(past: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert learn() == 1
    assert capsys.readouterr().out == "3 turns read, 3 failed and will be read again, 0 facts kept\n"


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--scope", "user", "--scope-id", "ann"], "files what people say about themselves: ask for it with"),
        (["--scope", "user", "--allow-personal"], "name whose facts they become"),
        (["--turns", "typo.db"], "--turns typo.db: there is no such file"),
        (["--store", "typo.db"], "--store typo.db: there is no such file"),
        (["--store", "postgresql://me:secret@h/db"], "--store postgresql://me:***@h/db: there is no such file"),
        (["--window", "-1"], "--window -1: give a number of hours above 0"),
        (["--window", "nan"], "--window nan: give a number of hours above 0"),
    ],
)
def test_learn_refuses_what_is_not_said_clearly(
    past: Path, capsys: pytest.CaptureFixture[str], options: list[str], line: str
) -> None:
    before = set(past.iterdir())
    assert learn(*options) == 4
    assert line in one_line(capsys)
    assert not [path.name for path in set(past.iterdir()) - before if path.name == "typo.db"]
