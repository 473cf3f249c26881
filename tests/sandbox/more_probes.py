"""More ways out of the sandbox than `sandbox/probes.py` has: odd doors, races, and things that live beside us.

Too many for `doctor`, which wants an answer in seconds. None of them may do harm where there are no walls: they are run
there, too, to show that they are able to get out.
"""

from __future__ import annotations

from mainspring.sandbox.probes import CLONE_NEWUSER, LIBC, Probe

ROOT = "R = os.path.dirname(F['out'])\n"
# A call by its number: on x86_64, and on the rest.
CALL = LIBC + "def number(*n): return n[os.uname().machine != 'x86_64']\n"
EXCHANGE = 2  # of renameat2
RACE = """
import threading
os.symlink(F['work'] + '/mine', F['work'] + '/r')
def flip():
    for n in range(1000):
        os.symlink((F['work'] + '/mine', F['out'] + '/file')[n % 2], F['work'] + '/r2')
        os.rename(F['work'] + '/r2', F['work'] + '/r')
t = threading.Thread(target=flip); t.start()
while t.is_alive():
    try: open(F['work'] + '/r', 'w').write('x')
    except OSError: pass
open(F['work'] + '/r', 'w').write('x')  # at the end it leads outside
"""
FOLDER_RACE = """
import threading
os.mkdir(F['work'] + '/d'); os.symlink(F['out'], F['work'] + '/l')
renameat2 = ctypes.CDLL(None).renameat2
def flip():
    for _ in range(1001):
        renameat2(-100, (F['work'] + '/d').encode(), -100, (F['work'] + '/l').encode(), 2)
t = threading.Thread(target=flip); t.start()
while t.is_alive():
    try: open(F['work'] + '/d/file', 'w').write('x')
    except OSError: pass
open(F['work'] + '/d/file', 'w').write('x')  # at the end it leads outside
"""
LATER = """
p = F['work'] + '/.mcp.json'
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while os.path.lexists(p): time.sleep(0.001)
        open(p, 'w').write('x')
    os._exit(0)
for _ in range(30 if os.path.isdir(p) else 1000):
    time.sleep(0.01)
    if os.path.isfile(p): break
raise OSError('refused')
"""
DOORS: tuple[Probe, ...] = (
    Probe("write by its own root", "open('/proc/self/root' + F['out'] + '/file', 'w').write('x')"),
    Probe("write by the first process's root", "open('/proc/1/root' + F['out'] + '/file', 'w').write('x')", "depends"),
    Probe("write by its folder in /proc", "os.chdir(F['out']); open('/proc/self/cwd/file', 'w').write('x')"),
    Probe(
        "open a descriptor again",
        "n = os.open(F['out'] + '/file', os.O_RDONLY); open(f'/proc/self/fd/{n}', 'w').write('x')",
    ),
    Probe(
        "change a mode by a descriptor", "os.fchmod(os.open(F['out'] + '/file', os.O_RDONLY), 0o777)", landlock=False
    ),
    Probe(
        "a descriptor that was left open", "assert [n for n in os.listdir('/proc/self/fd') if int(n) > 3]", "depends"
    ),
    Probe(
        "a file that another process has open",
        "found = []\n"
        "for p in [p for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()]:\n"
        "    for n in os.listdir(f'/proc/{p}/fd'):\n"
        "        end = os.readlink(f'/proc/{p}/fd/{n}')\n"
        "        if end.startswith('/') and not end.startswith('/dev/'): found.append(end)\n"
        "assert found",
        "depends",
    ),
    Probe(
        "link by a descriptor",
        "n = os.open(F['git'] + '/config', os.O_RDONLY)\n"
        "os.link(f'/proc/self/fd/{n}', F['work'] + '/x', src_dir_fd=n); open(F['work'] + '/x', 'w').write('x')",
    ),
    Probe(
        "open by a handle",
        CALL + "h = ctypes.create_string_buffer(136); ctypes.c_uint.from_buffer(h).value = 128; m = ctypes.c_int()\n"
        "call(libc.syscall(number(303, 264), -100, F['denied_file'].encode(), h, ctypes.byref(m), 0))\n"
        "n = libc.syscall(number(304, 265), os.open(F['work'], os.O_RDONLY), h, os.O_RDONLY); call(n)\n"
        "assert os.read(n, 9) == b'secret'",
        "root",
    ),
    Probe("a link that changes while it is opened", RACE),
    Probe("a folder that changes while it is opened", FOLDER_RACE),
    Probe("our temporary folder by its own name", ROOT + "open(R + '/temp/x', 'w').write('x')"),
    Probe("our own folder", ROOT + "os.listdir(R + '/state')"),
    Probe(
        "a lock of ours",
        ROOT + "import fcntl, glob\n"
        "fcntl.flock(os.open((glob.glob(R + '/state/held-*') + [R + '/state'])[0], os.O_RDONLY), fcntl.LOCK_SH)",
    ),
)
PLACES: tuple[Probe, ...] = (
    Probe(
        "exchange the repository",
        LIBC + "p = F['git'].encode(); os.mkdir(F['work'] + '/new')\n"
        f"call(libc.renameat2(-100, p, -100, (F['work'] + '/new').encode(), {EXCHANGE}))",
    ),
    Probe(
        "exchange the folder around one",
        LIBC + "os.makedirs(F['work'] + '/new/.git/hooks')\n"
        f"call(libc.renameat2(-100, (F['work'] + '/sub').encode(), -100, (F['work'] + '/new').encode(), {EXCHANGE}))",
    ),
    Probe("rename the working folder", "os.rename(F['work'], F['work'] + '2'); os.mkdir(F['work'])"),
    Probe("a protected place later", LATER),
)
WORLD: tuple[Probe, ...] = (
    Probe(
        "datagrams from a pair",
        "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
        # The server there takes no datagrams: whoever is told so has reached it.
        "try: a.sendto(b'x', F['socket'])\n"
        "except OSError as e: assert e.errno == 91, e",
    ),
    Probe(
        "the same of another type",
        "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)\n"
        "try: a.sendto(b'x', F['socket'])\n"
        "except OSError as e: assert e.errno == 91, e",
    ),
    Probe(
        "another address for a pair",
        "a, b = socket.socketpair(); a.shutdown(2); b.close(); a.connect(F['socket'])",
        "depends",
    ),
    Probe("TCP by another name", "socket.create_connection(('0.0.0.0', F['tcp']), 2)"),
    Probe("TCP by IPv6", "socket.create_connection(('::ffff:127.0.0.1', F['tcp']), 2)", "depends"),
    Probe("a raw socket", "socket.socket(17, socket.SOCK_RAW, 3)", "root"),
    Probe("the kernel's ciphers", "socket.socket(38, socket.SOCK_SEQPACKET)", "depends"),
    Probe("the priority of another process", "os.setpriority(os.PRIO_PROCESS, F['victim'], 19)"),
    Probe("the limits of another process", "import resource; resource.prlimit(F['victim'], resource.RLIMIT_CORE)"),
    Probe(
        "the list of processes",
        "def words(p):\n"
        "    try: return open(f'/proc/{p}/cmdline').read().split('\\0')\n"
        "    except OSError: return []\n"
        "assert any([words(p)[:2] == ['/bin/sleep', '100'] for p in os.listdir('/proc') if p.isdigit()])",
    ),
    Probe("a set-user-id program", "assert 'NoNewPrivs:\\t0' in open('/proc/self/status').read()"),
    Probe(
        "rights to be had",
        "s = open('/proc/self/status').read(); assert int(s.split('CapBnd:')[1].split()[0], 16)",
    ),
    Probe(
        "control groups",
        "def tries(p):\n"
        "    try: os.close(os.open(p, os.O_WRONLY)); return True\n"
        "    except OSError: return False\n"
        "files = [f'{d}/{n}' for d, _, ns in os.walk('/sys/fs/cgroup') for n in ns]\n"
        "assert any([tries(p) for p in files])",
        "depends",
    ),
    Probe(
        "devices",
        "known = {'null', 'zero', 'full', 'random', 'urandom', 'tty', 'ptmx', 'pts', 'shm', 'fd', 'stdin', 'stdout', "
        "'stderr', 'core', 'console'}\n"
        "assert set(os.listdir('/dev')) - known",
    ),
)  # fmt: skip
CALLS: tuple[Probe, ...] = (
    Probe(
        "a user namespace by clone",
        CALL + f"n = libc.syscall(number(56, 220), {CLONE_NEWUSER} | 17, 0, 0, 0, 0)\n"
        "if n == 0: os._exit(0)\n"
        "call(n); os.waitpid(n, 0)",
        "depends",
    ),
    Probe(
        "the same by clone3",
        CALL + f"a = (ctypes.c_uint64 * 8)({CLONE_NEWUSER}, 0, 0, 0, 17)\n"
        "n = libc.syscall(435, a, 64)\n"
        "if n == 0: os._exit(0)\n"
        "call(n); os.waitpid(n, 0)",
        "depends",
    ),
    Probe("a copy of the mounts", LIBC + "call(libc.syscall(428, -100, b'/', 1))", "root"),
    Probe("a new file system", LIBC + "call(libc.syscall(430, b'tmpfs', 0))", "root"),
    Probe(
        "a mount without its limits",
        LIBC + "a = (ctypes.c_uint64 * 4)(0, 1, 0, 0); call(libc.syscall(442, -100, b'/', 0, a, 32))\n"
        "open(F['out'] + '/file', 'w').write('x')",
        "depends",
    ),
    Probe(
        "typing, with more bits than are looked at",
        CALL + "m, s = os.openpty(); call(libc.syscall(number(16, 29), s, ctypes.c_uint64(0x100005412), b'x'))",
        "depends",
    ),
    Probe(
        "flags of a file outside",
        "import fcntl; n = os.open(F['out'] + '/file', os.O_RDONLY)\n"
        "b = bytearray(8); fcntl.ioctl(n, 0x80086601, b); b[0] |= 0x40; fcntl.ioctl(n, 0x40086602, bytes(b))",
        "depends",
        landlock=False,
    ),
)
MORE = (*DOORS, *PLACES, *WORLD, *CALLS)
