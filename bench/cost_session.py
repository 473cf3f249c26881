"""Scripted sessions for `bench/cost.py`: a model that works on a project, with real requests and the simulator's meter.

The loop is the core's own (`step`), the requests are the provider's, and `simulator/cache.py` computes the price. Only
the model and the tools are made up, from a seed: every setting gets the same work. A model that needs a file that is no
longer in view reads it again, in a separate turn that is paid for.
"""

from __future__ import annotations

from itertools import count
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter_ns
from typing import Any

import msgspec

from mainspring.context.compactor import Compactor
from mainspring.context.layers import LayerLimits
from mainspring.context.tokens import SideCall, SideCallReply
from mainspring.core.config import Config
from mainspring.core.effects import CallModel, Compact, Effect, Finish, PrepareContext, Request, RunTools
from mainspring.core.events import Compacted, ContextReady, Event, HooksDone, Replied, Submitted, ToolsDone
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Message, Stop, Text, ToolCall, ToolResult, User, result, user
from mainspring.core.models import MODELS, Model
from mainspring.core.money import Usage, cost
from mainspring.core.state import State
from mainspring.core.step import step
from mainspring.core.updates import Boundary
from mainspring.core.value import Bundle, Stamp
from mainspring.core.view import from_the_front
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.base import Conversation, ToolSpec
from mainspring.simulator.cache import PromptCache
from mainspring.simulator.validate import find_request_violations

MODEL, SMALL = MODELS["claude-sonnet-4-5"], MODELS["claude-haiku-4-5"]
SECONDS_PER_TURN = 20
SYSTEM = ("You are a coding agent. " + "Work with care; say what you found. " * 500,)  # about 4,500 tokens,
TOOLS = tuple(
    [
        ToolSpec(name, f"{name}. " + "What it is for, and how it is called. " * 30, {"type": "object"})
        for name in ("Read", "Grep", "Edit", "Bash")
    ]
)
SUMMARY = "\n".join(
    f"## {name}\n" + "The work went on as planned; nothing else is worth a word. " * 16
    for name in ("Task", "Decisions", "Files", "Open items", "Last action")
)  # a poor one: it contains no fact, so none reaches the model through a made-up summary


class Fact(Bundle):
    """A fact that will be needed later."""

    text: str
    where: str  # a file, or empty: the user said it
    turn: int


class Project:
    """Files, searches and logs, from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.files = {f"src/part_{n}/module_{n}.py": self.text(5_000, 30_000) for n in range(60)}
        self.facts = {path: f"limit_{n} = {self.random.randrange(10**9)}" for n, path in enumerate(self.files)}
        for path, fact in self.facts.items():
            middle = len(self.files[path]) // 2
            self.files[path] = f"{self.files[path][:middle]}\n{fact}\n{self.files[path][middle:]}"

    def text(self, least: int, most: int) -> str:
        size, lines, number = self.random.randint(least, most), list[str](), count(1)
        length = 0
        while length < size:
            line = f"{next(number):>5}  def work_{self.random.randrange(10**6)}(self, value: int) -> str: ..."
            lines.append(line)
            length += len(line) + 1
        return "\n".join(lines)


class Setting(Bundle):
    name: str
    limits: LayerLimits
    marks: int = 3  # on messages, at most
    model: Model = MODEL


class Outcome(Bundle):
    name: str
    cost: float  # in units: the price of an input token
    usage: Usage
    replies: int
    again: int  # files read again because they were no longer in view
    summaries: int
    trims: int
    largest: int  # prompt, in tokens
    asked: int  # facts
    at_once: int  # those in the request itself
    lost: int
    invalid: int
    layers: float  # milliseconds per turn, mean
    slowest: float


class Session:
    """One session under one setting."""

    def __init__(self, setting: Setting, turns: int, calls: int = 1, seed: int = 7, check_every: int = 10) -> None:
        self.setting, self.turns, self.calls, self.check_every = setting, turns, calls, check_every
        self.seed = seed
        self.project = Project(seed)
        self.random = Random(seed)
        self.worked: dict[str, None] = {}  # files that the script reads, in order: repeated reads do not count
        self.config = Config(model=setting.model, thinking=False, advise_after=10**6, end_after=10**7)
        self.provider, self.cache = Anthropic(), PromptCache()
        self.folder = TemporaryDirectory()
        self.recent: dict[str, None] = {}
        self.context = Compactor(
            self.config,
            new_id=self.new_id,
            ask=self.ask,
            small=SMALL.price,
            folder=self.folder.name,
            fixed=20_000,
            limits=setting.limits,
            files=lambda: [(path, self.project.files[path]) for path in reversed(self.recent)],
        )
        self.ids = count(1)
        self.now = 0
        self.turn = 0
        self.spent = 0
        self.usage = Usage()
        self.replies = self.again = self.summaries = self.trims = self.largest = self.invalid = 0
        self.asked = self.at_once = self.lost = 0
        self.user_facts: list[Fact] = []
        self.read_facts: list[Fact] = []
        self.body = b""
        self.times: list[float] = []
        self.plan: list[list[ToolCall]] = []  # calls that the model must make before it continues
        self.look_for: Fact | None = None
        self.log_ends: list[str] = []  # what the next request must contain

    def new_id(self) -> str:
        return f"{next(self.ids):08x}-0000-4000-8000-000000000000"

    # --- the loop ---

    async def run(self) -> Outcome:
        state = State(History())
        while self.turn < self.turns:
            state = await self.submission(state)
        self.folder.cleanup()
        return self.outcome()

    async def submission(self, state: State) -> State:
        fact = Fact(f"the port of service {self.turn} must be {self.random.randrange(10**9)}", "", self.turn)
        self.user_facts.append(fact)
        words = f"Please go on with part {self.turn}. Mind that {fact.text}. " + "Keep to the style of the code. " * 8
        event: Event = Submitted((User(user(words).content, id=self.new_id()),))
        until = min(self.turns, self.turn + 25)
        while True:
            event = msgspec.structs.replace(event, stamp=Stamp(self.new_id(), self.now))
            state, effect, updates = step(state, event, self.config)
            self.trims += sum(isinstance(update, Boundary) and update.layer == "trim" for update in updates)
            if isinstance(effect, Finish):
                return state
            event = await self.perform(state, effect, last=self.turn >= until)

    async def perform(self, state: State, effect: Effect, *, last: bool) -> Event:
        match effect:
            case PrepareContext():
                begun = perf_counter_ns()
                ready = await self.context.shrink(state, ())
                self.times.append((perf_counter_ns() - begun) / 1e6)
                edits = from_the_front(state.history, state.edits, ready.edits)
                return ContextReady(
                    ready.tokens, edits=edits, shrunk=ready.shrunk, staged=ready.staged, media=ready.media
                )
            case CallModel():
                return Replied(self.reply(state, effect.request, last=last))
            case RunTools():
                done = ToolsDone(tuple([self.run_tool(call) for call in effect.calls]))
                await self.context.stage(state.model)
                return done
            case Compact():
                self.summaries += effect.how == "summary"
                made = await self.context.summarize(state, effect)
                edits = from_the_front(state.history, state.edits, made.edits)
                return Compacted(edits, made.before, made.after, made.usage, made.cost, None, made.failed)
            case _:
                return HooksDone()

    # --- the model ---

    def reply(self, state: State, request: Request, *, last: bool) -> Assistant:
        marks = self.context.marks(state)[: self.setting.marks]
        conversation = Conversation(state.history, state.edits, SYSTEM, TOOLS, marks)
        prompt = self.meter(self.provider, request, conversation)
        self.replies += 1
        self.check_facts()
        blocks: list[Text | ToolCall] = [Text("I see what this is about. Let me look further. " * 3)]
        if self.plan:
            blocks += self.plan.pop(0)
        elif not last:
            blocks += self.next_calls()
            self.turn += 1
        written = sum(len(msgspec.json.encode(block)) for block in blocks) // 4
        usage = msgspec.structs.replace(prompt, output=written)
        self.book(usage, self.setting.model)
        stop = Stop.END_TURN if len(blocks) == 1 else Stop.TOOL_USE
        return Assistant(tuple(blocks), self.setting.model.name, stop, usage, id=self.new_id(), at=self.now)

    def meter(self, provider: Anthropic, request: Request, conversation: Conversation) -> Usage:
        self.now += SECONDS_PER_TURN * 1_000
        prepared = provider.prepare(request, conversation)
        self.body = b"".join(prepared.body)
        if self.replies % self.check_every == 0:
            self.invalid += bool(find_request_violations(self.body, prepared.headers))
        decoded: dict[str, Any] = msgspec.json.decode(self.body)
        metered = self.cache.look(decoded, self.now)
        self.cache.keep(metered, self.now)
        self.largest = max(self.largest, metered.usage.prompt)
        return metered.usage

    def book(self, usage: Usage, model: Model) -> None:
        self.usage = self.usage + usage
        self.spent += cost(usage, model.price)

    def next_calls(self) -> list[ToolCall]:
        """Drawn from the turn's own seed: the same for every setting, whatever it made the model read again."""
        self.random.seed(f"{self.seed}, turn {self.turn}")
        self.project.random.seed(f"{self.seed}, outputs of turn {self.turn}")
        if self.turn % 9 == 8 and self.look_for is None:
            self.ask_for_a_fact()
        if self.plan:
            return self.plan.pop(0)
        later: list[ToolCall] = []
        calls = [self.one_call(later) for _ in range(self.calls)]
        if later:
            self.plan.insert(0, later)
        return calls

    def one_call(self, later: list[ToolCall]) -> ToolCall:
        draw = self.random.random()
        paths = list(self.project.files)
        path = self.random.choice(paths)
        if draw < 0.45:
            self.worked.pop(path, None)
            self.worked[path] = None
            return self.read(path)
        if draw < 0.60:
            return ToolCall(self.new_id(), "Grep", {"pattern": f"work_{self.random.randrange(999)}", "path": "src"})
        if draw < 0.82:
            near = list(self.worked)[-4:] or paths
            target = self.random.choice(near if self.random.random() < 0.8 else paths)
            edit = self.edit(target)
            if self.in_view(target):
                return edit
            self.again += target in self.recent
            later.append(edit)
            return self.read(target)
        size = 100_000 if draw > 0.97 else self.random.randint(3_000, 20_000)
        return ToolCall(self.new_id(), "Bash", {"command": "make test", "size": size})

    def read(self, path: str) -> ToolCall:
        return ToolCall(self.new_id(), "Read", {"file_path": path})

    def edit(self, path: str) -> ToolCall:
        old, new = self.project.text(300, 700), self.project.text(300, 900)
        return ToolCall(self.new_id(), "Edit", {"file_path": path, "old_string": old, "new_string": new})

    def in_view(self, path: str) -> bool:
        return self.project.facts[path].encode() in self.body

    # --- facts ---

    def ask_for_a_fact(self) -> None:
        """From the user, or from a file that was read at least ten turns ago."""
        old = [fact for fact in self.read_facts if fact.turn <= self.turn - 10]
        known = self.user_facts if self.random.random() < 0.5 or not old else old
        fact = self.random.choice(known)
        self.asked += 1
        if fact.text.encode() in self.body:
            self.at_once += 1
        elif not fact.where:
            self.lost += 1
        else:
            self.again += 1
            self.look_for = fact
            self.plan.append([self.read(fact.where)])

    def check_facts(self) -> None:
        self.asked += len(self.log_ends)
        seen = sum(end.encode() in self.body for end in self.log_ends)
        self.at_once += seen
        self.lost += len(self.log_ends) - seen
        self.log_ends = []
        if self.look_for is not None and not self.plan:
            self.lost += self.look_for.text.encode() not in self.body
            self.look_for = None

    # --- tools ---

    def run_tool(self, call: ToolCall) -> ToolResult:
        return msgspec.structs.replace(result(call.id, self.output(call)), id=self.new_id(), at=self.now)

    def output(self, call: ToolCall) -> str:
        match call.name:
            case "Read":
                path = call.input["file_path"]
                self.recent.pop(path, None)
                self.recent[path] = None
                self.read_facts.append(Fact(self.project.facts[path], path, self.turn))
                return self.project.files[path]
            case "Grep":
                return self.project.text(1_000, 6_000)
            case "Edit":
                return "The file was changed:\n" + self.project.text(200, 500)
            case _:
                end = f"FAILED test_{self.random.randrange(10**9)}"
                self.log_ends.append(end)
                return f"{self.project.text(call.input['size'], call.input['size'])}\n{end}"

    # --- side calls of the context ---

    async def ask(self, question: SideCall) -> SideCallReply:
        model = SMALL if question.small else self.setting.model
        text = "Read some files, changed two of them, the tests pass. " * 12 if question.small else SUMMARY
        messages = [stamped(message, n) for n, message in enumerate(question.messages)]
        marks = (*question.marks[: self.setting.marks - 1], messages[-1].id)
        fixed = () if question.small else SYSTEM, () if question.small else TOOLS
        conversation = Conversation(History(messages), (), *fixed, marks=() if question.small else marks)
        request = Request(model.name, question.max_output, 1, "compact", "", 0, overload_tries=1)
        usage = self.meter(Anthropic(), request, conversation)
        usage = msgspec.structs.replace(usage, output=len(text) // 4)
        self.book(usage, model)
        return SideCallReply(text, usage, cost(usage, model.price))

    def outcome(self) -> Outcome:
        return Outcome(
            self.setting.name,
            self.spent / self.setting.model.price.input,
            self.usage,
            self.replies,
            self.again,
            self.summaries,
            self.trims,
            self.largest,
            self.asked,
            self.at_once,
            self.lost,
            self.invalid,
            sum(self.times) / len(self.times),
            max(self.times),
        )


def stamped(message: Message, number: int) -> Message:
    return message if message.id else msgspec.structs.replace(message, id=f"asked-{number}")
