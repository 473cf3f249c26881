"""Ways out of the sandbox, as data: small programs that try, each with what it tries (security V6).

A probe ends with 0 if it got what it wanted; whether it left a trace outside is looked at as well (`probe_field.py`),
so one that lies about itself is found out. The same probes run without walls, in a field made for them: those for
`anyone` succeed there, and those for `root` if root runs them, which shows that they are able to. All they touch is in
that field, or is put back as it was.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Able = Literal["anyone", "root", "depends"]  # who gets through where there are no walls


class Probe(NamedTuple):
    name: str
    script: str  # Python; `F` holds the places of the field
    able: Able = "anyone"
    landlock: bool = True  # whether the lower walls stop it, too


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
        "time.sleep(0.05); s.send(b'x')",  # the first one's refusal comes with the second
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
        "own = {'self', 'thread-self', 'sys', 'pressure'}\n"  # the last is for everybody: it tells of waiting
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
        "depends",  # outside there is nothing to be undone, and only root may
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
