"""`mainspring simulate`: the model server as a process of its own.

Its first line on stdout is the address. With `--verbose` a line for each request follows. It runs until Ctrl-C or
SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import msgspec

from mainspring.core.money import NANOS_PER_USD
from mainspring.help_pages import find_topic
from mainspring.simulator.faults import FAULTS, FORM, ODD, Fault, FaultPlan, PlannedFault
from mainspring.simulator.replies import Json, RawReply, RawStream, ReceivedRequest, Refuse, Reply, Say
from mainspring.simulator.scripts import (
    Choose,
    default_reply,
    encode_recording_line,
    play_page,
    read_recording,
    read_rule,
    read_script,
    replay_recording,
)
from mainspring.simulator.server import ModelServer, ServedRequest
from mainspring.simulator.server_quirks import check_oddities
from mainspring.text import plural

MISUSED = 2  # argparse's exit code


def make_argument_parser(prog: str) -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog=prog,
        description="Run a model server for tests on loopback. It validates requests strictly and fails on demand.",
        epilog=f"faults: {list_faults(FAULTS)}. Quirks of odd servers, for --odd and --fault: {list_faults(ODD)}",
    )
    options.add_argument("--port", type=int, default=0, help="port to listen on (default: 0, any free port)")
    options.add_argument("--api-key", help="accept only this key")
    source = options.add_mutually_exclusive_group()
    source.add_argument(
        "--script", type=Path, help="answer from a JSON list of replies in order, or of {prompt, replies}"
    )
    source.add_argument(
        "--page",
        type=read_page_name,
        metavar="TOPIC",
        help="play the model of a page of the documentation, such as tutorial/own-tool",
    )
    source.add_argument("--replay", type=Path, help="answer as in this recording")
    source.add_argument("--rule", help="answer with MODULE:FUNCTION, which gets a request and returns a reply")
    options.add_argument("--record", type=Path, help="write each request and its reply to this file, a line each")
    options.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar=FORM,
        help="spoil the first replies of each conversation, or of those with this prompt; '*' means every reply",
    )
    options.add_argument(
        "--rate", action="append", default=[], metavar="NAME=SHARE", help="spoil this share of all replies, at random"
    )
    options.add_argument(
        "--odd", action="append", default=[], metavar="NAME[=ARGUMENT]", help="write every reply with this quirk"
    )
    options.add_argument("--seed", type=int, default=0, help="seed for --rate: the same seed spoils the same replies")
    options.add_argument("--model-limit", type=int, help="refuse prompts with more tokens than this")
    options.add_argument("--verbose", action="store_true", help="print a line for each request")
    return options


def list_faults(faults: Mapping[str, Fault]) -> str:
    return "; ".join([f"{name} ({fault.about})" for name, fault in faults.items()])


def main(argv: Sequence[str], prog: str = "mainspring simulate") -> int:
    reader = make_argument_parser(prog)
    options = reader.parse_args(list(argv))

    def wrong(what: str, error: Exception) -> NoReturn:
        reader.error(f"{what}: {error}")

    try:
        faults = FaultPlan(
            *map(PlannedFault.read, options.fault), seed=options.seed, rates=dict(map(parse_fault_share, options.rate))
        )
        odd = check_oddities(options.odd)
    except ValueError as error:
        wrong("invalid faults", error)
    choose = choose_replies(options, wrong)
    try:
        record = make_recorder(options.record) if options.record is not None else None
    except OSError as error:
        wrong(f"cannot write the recording '{options.record}'", error)
    server = ModelServer(
        choose=choose,
        port=options.port,
        api_key=options.api_key,
        faults=faults,
        metered=True,
        limit=options.model_limit,
        odd=odd,
        record=record,
        tell=print_request if options.verbose else None,
    )
    try:
        asyncio.run(serve_until_stopped(server))
    except OSError as error:
        wrong(f"cannot listen on port {options.port}", error)
    return 0


def read_page_name(name: str) -> Path:
    page = find_topic(name)
    if page is None:
        raise argparse.ArgumentTypeError(f"there is no page '{name}': 'mainspring help topics' lists them")
    return page


def choose_replies(options: argparse.Namespace, wrong: Callable[[str, Exception], NoReturn]) -> Choose:
    try:
        if options.script is not None:
            return read_script(options.script)
        if options.page is not None:
            return play_page(options.page)
        if options.replay is not None:
            return replay_recording(read_recording(options.replay))
        if options.rule is not None:
            sys.path.insert(0, os.getcwd())  # noqa: PTH109  # rules are written beside the tests that use them
            return read_rule(options.rule)
    except (OSError, msgspec.MsgspecError) as error:
        name, path = ("script", options.script) if options.script is not None else ("recording", options.replay)
        wrong(f"cannot read the {name} '{path}'", error)
    except (ImportError, ValueError) as error:
        wrong(f"cannot use the rule '{options.rule}'", error)
    return default_reply


def parse_fault_share(written: str) -> tuple[str, float]:
    name, _, part = written.partition("=")
    if not part:
        raise ValueError(f"'{written}' is not a rate; write NAME=SHARE, as in overloaded=0.1")
    return name, float(part)


def make_recorder(path: Path) -> Callable[[Json, Reply], None]:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def record(body: Json, reply: Reply) -> None:
        os.write(file, encode_recording_line(body, reply))

    return record


async def serve_until_stopped(server: ModelServer) -> None:
    stopped = asyncio.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sign, stopped.set)
    async with server:
        print_line(server.url)
        await stopped.wait()


# --- the line for a request ---------------------------------------------------------------------------


def print_request(received: ReceivedRequest, answer: ServedRequest | Refuse) -> None:
    """One line: the request and its outcome."""
    if isinstance(answer, Refuse):
        print_line(f"{received.path} refused {answer.status} {answer.type}: {answer.message}")
        return
    talk = received.talk
    spoilt = f" [{answer.fault}]" if answer.fault else ""
    asked = f"{talk.model}, {plural(len(talk.messages), 'message')}, '{talk.prompt[:40]}'"
    print_line(
        f"{asked} > {describe_reply_kind(answer.reply)}{spoilt}, {answer.cost / NANOS_PER_USD:.6f} USD".replace(
            "\n", " "
        )
    )


def describe_reply_kind(reply: Reply) -> str:
    match reply:
        case Say():
            return reply.stopped
        case Refuse():
            return f"{reply.status} {reply.type}"
        case RawStream():
            return f"stream that ends with '{reply.end}'"
        case RawReply():
            return "bytes"


def print_line(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()
