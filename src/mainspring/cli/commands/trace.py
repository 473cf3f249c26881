"""`mainspring trace [ID]`: a session on a time axis, in a browser, as one HTML file, as text or as JSON.

For the browser it starts a server, for this machine only, that runs until Ctrl-C. It opens no browser without `--open`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from mainspring import viewer
from mainspring.agent.find_session import describe_other_home, locate_newest_session, locate_session
from mainspring.agent.options import StartError
from mainspring.agent.resume import SessionLocation, new_place
from mainspring.cli.output import is_terminal
from mainspring.cli.subcommands import Namespace
from mainspring.sessions.paths import FILE, draft_of
from mainspring.text import plural, strip_control_characters
from mainspring.viewer.trace import Trace

USUAL = 100  # columns without a terminal
WAYS = ("--html", "--json", "--text")


def trace(args: Namespace) -> int:
    ways = [name for name in WAYS if getattr(args, name.removeprefix("--"))]
    if len(ways) > 1:
        raise StartError(f"'{ways[0]}' and '{ways[1]}' cannot be combined: choose one")
    for name in ("--port", "--open"):
        if ways and getattr(args, name.removeprefix("--")):
            raise StartError(f"'{name}' cannot be combined with '{ways[0]}': it applies to the page in the browser")
    place = new_place(os.environ, os.getcwd(), ())  # noqa: PTH109  # pathlib takes 8 ms to load
    file = find_traced_session(args.session_name or "", place)
    try:
        if not ways:
            return run_viewer(file, port=args.port or 0, show=args.open)
        return OTHERWISE[ways[0]](looked_at(file), args)
    except BrokenPipeError:
        raise  # the reader has closed the pipe
    except OSError as error:
        raise StartError(explain_serve_error(error, args.port)) from None


def explain_serve_error(error: OSError, port: int | None) -> str:
    if error.filename:
        return f"'{error.filename}': {error.strerror}"
    why = os.strerror(error.errno or 0)
    return f"cannot listen on port {port} ({why}): leave out '--port' to use any free port"


def find_traced_session(name: str, place: SessionLocation) -> str:
    """By its id, title, path or folder; without a name, the newest one of this folder. Prints where it was found, if
    that is not our home."""
    file = locate_session(name, place) if name else locate_newest_session(place.cwd, place)
    if where := describe_other_home(file, place):
        print(f"Note: {where}", file=sys.stderr)
    return file


def looked_at(file: str) -> Trace:
    made = Trace(file)
    made.look()
    return made


# --- without a browser ----------------------------------------------------------------------------------------


def print_trace(made: Trace, _args: Namespace) -> int:
    width = (os.get_terminal_size().columns or USUAL) if is_terminal() else USUAL
    for line in viewer.render_axis(made, width):
        print(strip_control_characters(line))
    return 0


def print_trace_json(made: Trace, _args: Namespace) -> int:
    for line in json_lines(made):
        print(line)
    return 0


def json_lines(made: Trace) -> Iterator[str]:
    """The summary, then one span per line: a reader of a long session need not hold all of it."""
    encode = msgspec.json.Encoder().encode
    yield encode(made.head()).decode()
    for span in made.spans:
        yield encode(span).decode()


def write_trace_html(made: Trace, args: Namespace) -> int:
    file = str(args.html)
    data = viewer.export_html(made)
    write_whole(file, data)
    print(f"Wrote '{strip_control_characters(file)}' ({plural(len(data) // 1_000 or 1, 'kilobyte')}).")
    return 0


def write_whole(file: str, data: bytes) -> None:
    """Writes all of it or nothing. Readable by the owner only: it contains a session."""
    draft = draft_of(file)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE)  # never an existing file
    try:
        with open(fd, "wb") as opened:  # noqa: PTH123  # a descriptor
            opened.write(data)
        os.replace(draft, file)  # noqa: PTH105  # names are strings here
    except OSError:
        with suppress(OSError):
            os.unlink(draft)  # noqa: PTH108
        raise


OTHERWISE = {"--html": write_trace_html, "--json": print_trace_json, "--text": print_trace}


# --- in the browser -------------------------------------------------------------------------------------------


def run_viewer(file: str, *, port: int, show: bool) -> int:
    return asyncio.run(serve_viewer(file, port=port, show=show))


async def serve_viewer(file: str, *, port: int, show: bool) -> int:
    over = asyncio.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sign, over.set)
    async with viewer.ViewServer(file, port=port) as server:
        print(server.url, flush=True)
        print("Press Ctrl-C to stop. Anyone with this address can read the session: it contains a token.", flush=True)
        if show:
            import webbrowser

            await asyncio.to_thread(webbrowser.open, server.url)
        await over.wait()
    return 0
