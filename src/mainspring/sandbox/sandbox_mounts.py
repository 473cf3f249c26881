"""Whether a sandbox was built from what was decided on (security X3).

Bubblewrap mounts by names, and a command that still runs in another sandbox can swap folders of the workspace for links
meanwhile: then a folder from outside would be mounted in the workspace, and could be written. No descriptor can be
handed to bubblewrap 0.8 instead of a name. So the first thing that runs inside is a check of ours: every mount in a
working folder that can be written has to come from that working folder, wherever in it that is by now. The kernel says
where it comes from, whatever its name was.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mainspring.processes.paths import is_within

TABLE = "/proc/self/mountinfo"
REFUSED = 126  # the exit code, as for a command that cannot be run
# Its arguments: where mounts may come from, the file systems that are known outside, the working folders, the command.
SCRIPT = """
allowed=$1 known=$2 folders=$3; shift 3
set -f
while IFS=' ' read -r _ _ device root point options _; do
    case $options in rw | rw,*) ;; *) continue ;; esac
    case " $known " in *" $device "*) ;; *) continue ;; esac
    IFS='
'
    for folder in $folders; do
        case $point in "$folder" | "$folder"/*) ;; *) continue ;; esac
        found=
        for one in $allowed; do
            case "$device $root" in "$one" | "$one"/*) found=1; break ;; esac
        done
        if [ -z "$found" ]; then
            echo "mainspring: '$point' was swapped while the sandbox was set up. Nothing was run: try again." >&2
            exit REFUSED
        fi
    done
    unset IFS
done </proc/self/mountinfo
unset IFS
set +f
exec "$@"
""".replace("REFUSED", str(REFUSED))


class Mount(NamedTuple):
    device: str
    root: str  # what of its file system is mounted, as the table spells it
    point: str


def check_before(shell: str, folders: Iterable[str], table: str) -> tuple[str, ...]:
    """What stands before the command, inside. `table`: the mounts outside."""
    mounts = read_table(table)
    spelled = [escape_mount_path(folder) for folder in folders]
    allowed = [f"{one.device} {one.root}" for folder in spelled for one in find_mount_sources(folder, mounts)]
    known = dict.fromkeys([mount.device for mount in mounts])
    return shell, "-c", SCRIPT, "mainspring", "\n".join(allowed), " ".join(known), "\n".join(spelled)


def read_table(table: str) -> list[Mount]:
    rows = [line.split(" ", 5) for line in table.splitlines()]
    return [Mount(row[2], row[3], row[4]) for row in rows if len(row) > 5]


def find_mount_sources(folder: str, mounts: list[Mount]) -> list[Mount]:
    """What a working folder is of, and what is mounted in it."""
    around = [mount for mount in mounts if is_within(folder, mount.point)]
    inner = [mount for mount in mounts if is_within(mount.point, folder) and mount.point != folder]
    if not around:
        return inner
    last = max(around, key=lambda mount: len(mount.point.rstrip("/")))  # of two on one place, the later one
    last = [mount for mount in around if mount.point == last.point][-1]
    rest = folder[len(last.point.rstrip("/")) :]
    return [last._replace(root=last.root.rstrip("/") + rest), *inner]


def escape_mount_path(path: str) -> str:
    """As the table does."""
    for letter in "\\ \t\n":
        path = path.replace(letter, f"\\{ord(letter):03o}")
    return path
