"""Escape attempts from the sandbox, as data: small programs, each with a description (security V6).

A probe exits with 0 if it succeeded; changes outside are checked as well, so a probe that lies about itself is
detected. The same probes run without a sandbox, in an area made for them: those for `anyone` succeed there, and those
for `root` if root runs them, which shows that they work. They touch only that area, or restore what they changed.

The area has a workspace, files outside of it, a victim process and servers. It is created again for each probe. Tests
run the probes with and without a sandbox; `doctor` only with one.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Literal, NamedTuple

from mainspring.processes.child import ProcessSpec, SandboxAccess
from mainspring.sandbox.placeholders import is_our_file, is_ours
from mainspring.sandbox.sandbox import ProbeResult, SandboxBackend, SandboxLayout, build_sandbox

Able = Literal["anyone", "root", "depends"]  # who succeeds without a sandbox


class Probe(NamedTuple):
    name: str
    script: str  # Python; `F` has the paths of the area
    able: Able = "anyone"
    landlock: bool = True  # whether the weaker sandbox stops it, too


HEAD = "import ctypes, json, os, socket, stat, subprocess, sys, time\nF = json.loads(sys.argv[1])\n"
LIBC = """
libc = ctypes.CDLL(None, use_errno=True)
def call(answer):
    if answer < 0:
        raise OSError(ctypes.get_errno(), 'refused')
"""
PTRACE_ATTACH, PTRACE_DETACH = 16, 17
CLONE_NEWUSER = 0x10000000
KEYCTL = {"x86_64": 250, "aarch64": 219}
IO_URING_SETUP = 425

FILES: tuple[Probe, ...] = (
    Probe("write a file outside", "open(F['out'] + '/file', 'w').write('x')"),
    Probe("make a folder outside", "os.mkdir(F['out'] + '/new')"),
    Probe("remove a file outside", "os.remove(F['out'] + '/file')"),
    Probe("rename outside", "os.rename(F['out'] + '/file', F['out'] + '/other')"),
    Probe("move out of the workspace", "os.rename(F['work'] + '/mine', F['out'] + '/mine')"),
    Probe(
        "write through a link",
        "os.symlink(F['out'] + '/file', F['work'] + '/link'); open(F['work'] + '/link', 'w').write('x')",
    ),
    Probe(
        "write through a hard link",
        "os.link(F['out'] + '/file', F['work'] + '/link'); open(F['work'] + '/link', 'w').write('x')",
    ),
    Probe("change a mode outside", "os.chmod(F['out'] + '/file', 0o777)", landlock=False),
    Probe("change times outside", "os.utime(F['out'] + '/file', (1, 1))", landlock=False),
    Probe("set an attribute outside", "os.setxattr(F['out'] + '/file', 'user.probe', b'x')", "depends", landlock=False),
    Probe("read a denied file", "open(F['denied_file']).read()"),
    Probe("read it by its other root", "open('/proc/self/root' + F['denied_file']).read()"),
    Probe("list a denied folder", "assert os.listdir(F['denied_folder'])", landlock=False),
    Probe("read in a denied folder", "open(F['denied_folder'] + '/secret').read()"),
    Probe(
        "uncover a denied file", "os.chmod(F['denied_file'], 0o644); assert open(F['denied_file']).read() == 'secret'"
    ),
)

PROTECTED: tuple[Probe, ...] = (
    Probe("write a hook of git", "open(F['git'] + '/hooks/pre-commit', 'w').write('x')"),
    Probe("change the configuration of git", "open(F['git'] + '/config', 'a').write('x')"),
    Probe(
        "replace it",
        "p = F['git'] + '/'; open(p + 'new', 'w').write('x')\n"
        "try: os.rename(p + 'new', p + 'config')\n"
        "except OSError: os.remove(p + 'new'); raise",
    ),
    Probe("lead git to another one", "open(F['git'] + '/commondir', 'w').write('../evil')"),
    Probe("lend git foreign objects", "open(F['git'] + '/objects/info/alternates', 'w').write('../evil')"),
    Probe(
        "give git a remote",
        "p = F['git'] + '/remotes'; os.makedirs(p, exist_ok=True); open(p + '/origin', 'w').write('URL: ../x')",
    ),
    Probe("replace the repository", "os.rename(F['git'], F['git'] + '-old'); os.mkdir(F['git'])"),
    Probe(
        "put another one in its way",
        "p = F['work'] + '/.git'\nif os.path.isdir(p): os.rename(p, p + '-old')\n"
        "os.mkdir(p); open(p + '/config', 'w').write('x')",
    ),
    Probe(
        "replace the folder around one",
        "os.rename(F['work'] + '/sub', F['work'] + '/old'); os.makedirs(F['work'] + '/sub/.git/hooks')",
    ),
    Probe(
        "make a missing folder",
        "p = F['work'] + '/.claude'; os.makedirs(p, exist_ok=True); open(p + '/settings.json', 'w').write('x')",
    ),
    Probe("make a missing file", "open(F['work'] + '/.mcp.json', 'w').write('x')"),
    Probe(
        "make room for a missing file",
        "p = F['work'] + '/.mcp.json'\nif os.path.lexists(p): os.rmdir(p)\nopen(p, 'w').write('x')",
    ),
    Probe(
        "replace a link",
        "p = F['linked'] + '/.mainspring'; os.unlink(p); os.mkdir(p); open(p + '/settings.json', 'w').write('x')",
    ),
    Probe("write behind a link", "open(F['linked'] + '/.mainspring/settings.json', 'w').write('x')"),
)

NETWORK: tuple[Probe, ...] = (
    Probe("TCP", "socket.create_connection(('127.0.0.1', F['tcp']), 2)"),
    Probe(
        "UDP",
        "s = socket.socket(type=socket.SOCK_DGRAM); s.connect(('127.0.0.1', F['udp'])); s.send(b'x')\n"
        "time.sleep(0.05); s.send(b'x')",  # the refusal of the first one arrives with the second
    ),
    Probe("an abstract socket", "socket.socket(socket.AF_UNIX).connect('\\0' + F['abstract'])"),
    Probe("a socket by its path", "socket.socket(socket.AF_UNIX).connect(F['socket'])"),
    Probe("a socket to the host of the machine", "socket.socket(40, socket.SOCK_STREAM)", "depends"),
)

PROCESSES: tuple[Probe, ...] = (
    Probe("end another process", "os.kill(F['victim'], 9)"),
    Probe("read its environment", "assert b'SECRET' in open(f\"/proc/{F['victim']}/environ\", 'rb').read()"),
    Probe(
        "trace another process",
        LIBC + f"call(libc.ptrace({PTRACE_ATTACH}, F['victim'], 0, 0)); os.waitpid(F['victim'], 0x40000000)\n"
        f"call(libc.ptrace({PTRACE_DETACH}, F['victim'], 0, 0))",
        "depends",  # some systems let only a parent trace
    ),
    Probe("trace oneself", LIBC + "call(libc.ptrace(0, 0, 0, 0))"),
    Probe(
        "read a process's memory",
        LIBC + "b = ctypes.create_string_buffer(b'x' * 8); c = ctypes.create_string_buffer(8)\n"
        "class V(ctypes.Structure): _fields_ = [('b', ctypes.c_void_p), ('n', ctypes.c_size_t)]\n"
        "v, w = V(ctypes.addressof(c), 8), V(ctypes.addressof(b), 8)\n"
        "call(libc.process_vm_readv(os.getpid(), ctypes.byref(v), 1, ctypes.byref(w), 1, 0))",
    ),
    Probe(
        "outlive the command",
        "subprocess.Popen([sys.executable, '-I', '-c', 'import time; time.sleep(60)', F['word']], "
        # Only what is found later counts.
        "start_new_session=True, stdin=-3, stdout=-3, stderr=-3)\nsys.exit(1)",
        landlock=False,  # `Children` ends it
    ),
)

KERNEL: tuple[Probe, ...] = (
    Probe("a user namespace", LIBC + f"call(libc.unshare({CLONE_NEWUSER}))", "depends"),
    Probe(
        "a setting of the kernel",
        "p = '/proc/sys/vm/swappiness'; old = open(p).read(); open(p, 'w').write(old)",
        "root",
    ),
    Probe(
        "anything else in /proc",
        "def tries(p):\n"
        "    try: os.close(os.open(p, os.O_WRONLY | os.O_NONBLOCK)); return True\n"
        "    except OSError: return False\n"
        "own = {'self', 'thread-self', 'sys', 'pressure'}\n"  # everyone may write the last: it reports pressure
        "tops = [n for n in os.listdir('/proc') if not n.isdigit() and n not in own]\n"
        "files = [f'/proc/{n}' for n in tops] + [\n"
        "    f'{d}/{n}' for t in tops for d, _, ns in os.walk(f'/proc/{t}') for n in ns]\n"
        "assert any([tries(p) for p in files if os.path.isfile(p)])",
        "root",
    ),
    Probe(
        "a setting in /sys",
        "def tries(p):\n"
        "    try: os.close(os.open(p, os.O_WRONLY)); return True\n"
        "    except OSError: return False\n"
        "assert any([tries(p) for p in ('/sys/kernel/mm/transparent_hugepage/enabled', '/sys/class/net/lo/mtu', "
        "'/sys/kernel/mm/ksm/run', '/sys/module/printk/parameters/time')])",
        "root",
    ),
    Probe(
        "a device",
        "p = F['work'] + '/device'; os.mknod(p, stat.S_IFBLK | 0o600, os.makedev(7, 0)); os.remove(p)",
        "root",
    ),
    Probe(
        "a mount",
        LIBC + "p = (F['work'] + '/sub').encode(); call(libc.mount(b'none', p, b'tmpfs', 0, None)); libc.umount2(p, 2)",
        "root",
    ),
    Probe(
        "a mount made writable",
        LIBC + "call(libc.mount(None, b'/', None, 32 | 4096, None)); open(F['out'] + '/file', 'w').write('x')",
        "depends",  # outside there is nothing to undo, and only root may
    ),
    Probe("the keys of the session", LIBC + f"call(libc.syscall({KEYCTL}[os.uname().machine], 0, -3, 1))", "depends"),
    Probe(
        "io_uring",
        LIBC + f"b = ctypes.create_string_buffer(256); call(libc.syscall({IO_URING_SETUP}, 1, b))",
        "depends",
    ),
    Probe("the name of the machine", "socket.sethostname(socket.gethostname())", "root"),
)

PROBES = (*FILES, *PROTECTED, *NETWORK, *PROCESSES, *KERNEL)


SECONDS = 20.0  # for one probe; it takes some 50 ms
ENV = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}

Around = Callable[[ProcessSpec], AbstractContextManager[ProcessSpec]]
Snapshot = dict[str, tuple[int, float, str]]


class ProbeOutcome(NamedTuple):
    probe: Probe
    escaped: bool
    said: str  # the last line that it printed, or what changed outside


class ProbeRunner(NamedTuple):
    """The user and the sandbox with which probes run."""

    python: str = os.path.realpath(sys.executable)  # a virtual environment may be in a folder that is hidden inside
    user: int | None = None  # another one, if we are root
    walls: SandboxAccess = SandboxAccess.USUAL
    kind: SandboxBackend = SandboxBackend.BUBBLEWRAP
    below: bool = False  # the working folder is below the top of its repository


def run_one(probe: Probe, base: str, *, program: str | None, who: ProbeRunner | None = None) -> ProbeOutcome:
    """`base`: an existing folder of ours, not in a temporary folder. `program`: the sandbox program; None: without a
    sandbox.
    """
    who = who or ProbeRunner()
    with ProbeField(base, who) as field, field.walls(program) as around:
        before = field.snapshot()
        code, said = field.run([who.python, "-I", "-c", HEAD + probe.script, json.dumps(field.places)], around)
        changes = field.changes(before)
    if code == 0:
        return ProbeOutcome(probe, True, "it succeeded")
    if changes:
        return ProbeOutcome(probe, True, f"it changed {changes[0]}")
    return ProbeOutcome(probe, False, said)


class ProbeField:
    def __init__(self, base: str, who: ProbeRunner) -> None:
        self.root = Path(base) / f"probes-{os.urandom(6).hex()}"
        self.who, self.user = who, who.user
        self.places: dict[str, str | int] = {}
        self._stack = ExitStack()
        self._victim: subprocess.Popen[bytes] | None = None
        self._udp: socket.socket | None = None

    def __enter__(self) -> ProbeField:
        with ExitStack() as stack:
            self._plant(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextmanager
    def walls(self, program: str | None) -> Generator[Around]:
        if program is None:
            yield nullcontext
            return
        root = self.root
        rooms = SandboxLayout(
            folders=(f"{root}/work", f"{root}/linked"),
            temp=f"{root}/temp",
            state=f"{root}/state",
            denied=(f"{root}/denied_file", f"{root}/work/denied"),
        )
        sandbox = build_sandbox(ProbeResult(program, kind=self.who.kind), rooms)
        self._own()
        try:
            yield sandbox.around
        finally:
            sandbox.close()

    def run(self, argv: Sequence[str], around: Around) -> tuple[int, str]:
        with around(ProcessSpec(argv, f"{self.root}/work", ENV, walls=self.who.walls)) as job:
            self._own()  # files of the sandbox belong to the user, as if we were that user
            ended = subprocess.run(  # noqa: S603  # our own words
                [*self._as_user(), *job.argv], pass_fds=job.passed, cwd=job.cwd, env=dict(job.env), check=False,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=SECONDS,
                start_new_session=True,
            )  # fmt: skip
        lines = ended.stderr.decode(errors="replace").strip().splitlines()
        return ended.returncode, lines[-1] if lines else ""

    def snapshot(self) -> Snapshot:
        """Of everything that no probe may change."""
        found: Snapshot = {}
        for top in ("out", ".git", "work/.git", "work/sub/.git", "work/.claude", "work/.mcp.json", "linked"):
            for path in _tree(self.root / top):
                if not is_ours(str(path)) and not is_our_file(str(path)):
                    found[str(path.relative_to(self.root))] = _looks(path)
        return found

    def changes(self, before: Snapshot) -> list[str]:
        after = self.snapshot()
        names = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
        if self._victim is None or self._victim.poll() is not None:
            names.append("a process outside")
        if self._udp is not None and _heard(self._udp):
            names.append("a server outside")
        if find_survivors(str(self.places["word"])):
            names.append("what runs after the command")
        return names

    def _plant(self, stack: ExitStack) -> None:
        root = self.root
        git = root / ".git" if self.who.below else root / "work/.git"
        for folder in ("out", "temp", "state", "work/sub/.git", "work/denied", "linked/real"):
            (root / folder).mkdir(parents=True)
        for folder in ("hooks", "objects/info", "refs"):  # a complete repository, so that the git profile opens it
            (git / folder).mkdir(parents=True)
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        for path in (root / "out/file", root / "work/mine", git / "config", root / "linked/real/settings.json"):
            path.write_text("as it was")
        (git / "HEAD").write_text("ref: refs/heads/main\n")
        for name in ("denied_file", "work/denied/secret"):
            (root / name).write_text("secret")
        (root / "linked/.mainspring").symlink_to("real")
        self._own()
        word = f"probe-{os.urandom(8).hex()}"
        stack.callback(_end_survivors, word)
        self.places = {
            "out": f"{root}/out", "work": f"{root}/work", "git": str(git), "linked": f"{root}/linked", "word": word,
            "denied_file": f"{root}/denied_file", "denied_folder": f"{root}/work/denied",
            "victim": self._start_victim(stack), **self._serve(stack),
        }  # fmt: skip

    def _start_victim(self, stack: ExitStack) -> int:
        self._victim = subprocess.Popen([*self._as_user(), "/bin/sleep", "100"], env={"SECRET": "x"})  # noqa: S603
        stack.callback(self._victim.wait)
        stack.callback(self._victim.kill)
        _until(lambda: b"sleep" in Path(f"/proc/{self._victim.pid if self._victim else 0}/cmdline").read_bytes()[:12])
        return self._victim.pid

    def _serve(self, stack: ExitStack) -> dict[str, str | int]:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self._udp = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
        self._udp.bind(("127.0.0.1", 0))
        self._udp.setblocking(False)
        abstract = f"probe-{os.urandom(8).hex()}"
        for address in (f"\0{abstract}", f"{self.root}/s"):
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(address)
            server.listen()
        self._own()
        port, udp_port = tcp.getsockname()[1], self._udp.getsockname()[1]
        return {"tcp": port, "udp": udp_port, "abstract": abstract, "socket": f"{self.root}/s"}

    def _as_user(self) -> list[str]:
        if self.user is None:
            return []
        return ["/usr/bin/setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]

    def _own(self) -> None:
        if self.user is not None:
            for path in _tree(self.root):
                os.chown(path, self.user, self.user, follow_symlinks=False)


def find_survivors(word: str, patience: float = 1.0) -> list[int]:
    """Those that still run after the time that the kernel may need to end them."""
    deadline = time.monotonic() + patience
    while (found := _with_word(word)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


def _with_word(word: str) -> list[int]:
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if word.encode() in words:
                found.append(int(folder.name))
    return found


def _end_survivors(word: str) -> None:
    for pid in _with_word(word):
        os.kill(pid, 9)


def _tree(top: Path) -> Iterator[Path]:
    if not os.path.lexists(top):
        return
    yield top
    if top.is_dir() and not top.is_symlink():
        for entry in sorted(top.iterdir()):
            yield from _tree(entry)


def _looks(path: Path) -> tuple[int, float, str]:
    """Mode, time and content. A folder's time says nothing beyond its content."""
    found = path.lstat()
    if path.is_symlink():
        return found.st_mode, 0.0, str(path.readlink())
    if not path.is_file():
        return found.st_mode, 0.0, ""
    names = os.listxattr(path)
    return found.st_mode, found.st_mtime, f"{path.read_text()} {names}"


def _heard(server: socket.socket) -> bool:
    try:
        return bool(server.recv(1))
    except BlockingIOError:
        return False


def _until(state: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not state():
        if time.monotonic() > deadline:
            raise TimeoutError("the area of the probes is not ready")
        time.sleep(0.002)
