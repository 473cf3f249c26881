"""The whole way of a call, with real tools in real folders: every step, what each refuses, and their order (Z-22)."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

import pytest
from processes.traces import new_nap, until, with_word

from mainspring.core.errors import DeclinedError, ToolError
from mainspring.core.messages import Text, ToolCall
from mainspring.core.pairing import NeverRan
from mainspring.core.updates import Rendering, Update
from mainspring.engine.shared_state import EnginePolicy
from mainspring.hooks.events import HookPoint, HookResult
from mainspring.hooks.runner import Hook, HookRunner
from mainspring.permissions.checker import PermissionChecker
from mainspring.permissions.classifier import Classifier, ClassifierAnswer
from mainspring.permissions.policy import PermissionRequest
from mainspring.tools.base import (
    DENIED,
    INTERRUPTED,
    INTERRUPTED_AFTER,
    Input,
    Tool,
    ToolAnswer,
    ToolContext,
    ToolHandle,
    Workspace,
    make_answer,
)
from mainspring.tools.builtin import BuiltinTools
from mainspring.tools.pipeline import MOST_DEEP, STEPS, InvocationResult, whole_path
from mainspring.tools.toolset import Toolset

PRE, POST, FAILED, ASKED = (
    HookPoint.PRE_TOOL_USE,
    HookPoint.POST_TOOL_USE,
    HookPoint.POST_TOOL_USE_FAILURE,
    HookPoint.PERMISSION_REQUEST,
)
ALL = [name for name, _ in STEPS]
ENV = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
Result = TypeVar("Result")
Says = Callable[[dict[str, Any]], object]


class Scene:
    """A session's hands, and the engine's side of a call. Whatever happens is put down, in order, in `log`."""

    def __init__(self, folder: Path, *rules: str, mode: str = "default", answers: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.policy = EnginePolicy(mode, rules=rules)
        self.failures: dict[str, int] = {}
        self.log: list[Any] = []
        self.about: list[Any] = []
        self.warnings: list[str] = []
        self._answers = list(answers)
        self.hooks: list[Hook] = []
        self.kit = BuiltinTools(Workspace(str(folder), home=str(folder / "home"), spill=str(folder / "spill")), ENV)
        self.more: list[Tool] = []
        self.agent: tuple[str, str] | None = None
        self.classifier: Callable[[], Classifier] | None = None

    def hook(self, point: HookPoint, says: Says | dict[str, Any] | None = None, *, matcher: str = "") -> Scene:
        def ask(facts: dict[str, Any]) -> object:
            self.log.append((str(point), facts))
            return says(facts) if callable(says) else says

        self.hooks.append(Hook(point, ask, matcher, name="mine"))
        return self

    def hands(self) -> Toolset:
        attended = bool(self._answers)
        tools: list[Tool | ToolHandle] = [*self.kit.offers(["Read", "Edit", "Bash"]), *self.more]
        hooks = HookRunner(self.hooks, warn=self.warnings.append)
        gate = PermissionChecker(home=self.kit.place.home)
        return Toolset(
            tools,
            place=self.kit.place,
            gate=gate,
            hooks=hooks,
            attended=attended,
            agent=self.agent,
            classifier=self.classifier,
        )

    # --- the engine's side ---

    async def ask(self, text: str, about: Any = None) -> str:
        self.log.append(("asked", text))
        self.about.append(about)
        return self._answers.pop(0)

    async def note_decision(self, decision: str, reason: str, classifier: tuple[str, str] | None = None) -> None:
        self.log.append((decision, reason))

    def progress(self, text: str) -> None:
        self.log.append(("progress", text))

    def show(self, update: Update) -> None:
        raise AssertionError(update)  # nothing here starts an agent

    async def room(self) -> None:
        pass

    # --- a call ---

    async def call(self, name: str, /, **input: Any) -> InvocationResult:
        return await self.hands().run(ToolCall("call-1", name, input), self)

    def now(self, name: str, /, **input: Any) -> InvocationResult:
        return self.play(lambda: self.call(name, **input))

    def bash(self, command: str) -> InvocationResult:
        return self.now("Bash", command=command)

    def play(self, main: Callable[[], Awaitable[Result]]) -> Result:
        async def play() -> Result:
            try:
                return await main()
            finally:
                await self.kit.close()

        return asyncio.run(play())

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.log]

    def made(self, name: str = "made") -> bool:
        return (self.folder / name).exists()


def own(**fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": fields}


def rewritten(**input: Any) -> dict[str, Any]:
    return own(updatedInput=input)


def steps(done: InvocationResult) -> list[str]:
    return [name for name, _ in done.steps]


# --- the order ----------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-13", "F-14", "F-27")
def test_the_steps_in_their_order(tmp_path: Path) -> None:
    """Backfill, hooks, rules and mode, the question to a hook and to a person, the tool, the hooks after it."""
    (tmp_path / "a.txt").write_text("one\n")
    scene = Scene(tmp_path, "allow Read", answers=("allow",))
    at: dict[str, str] = {}

    def look(facts: dict[str, Any]) -> None:
        at[facts["hook_event_name"]] = (tmp_path / "a.txt").read_text()

    for point in (PRE, ASKED, POST, FAILED):
        scene.hook(point, look, matcher="Edit")
    hands = scene.hands()

    async def main() -> InvocationResult:
        await hands.run(ToolCall("call-0", "Read", {"file_path": "a.txt"}), scene)
        scene.log.clear()
        given = {"file_path": "a.txt", "old_string": "one", "new_string": "two"}
        return await hands.run(ToolCall("call-1", "Edit", given), scene)

    done = scene.play(main)
    assert not done.answer.is_error
    assert scene.names == ["PreToolUse", "ask", "PermissionRequest", "asked", "allow", "PostToolUse"]
    assert at == {"PreToolUse": "one\n", "PermissionRequest": "one\n", "PostToolUse": "two\n"}
    whole = {"file_path": str(tmp_path / "a.txt"), "old_string": "one", "new_string": "two"}
    assert scene.log[0][1] == {
        "hook_event_name": "PreToolUse",
        "tool_name": "Edit",
        "tool_input": whole,
        "tool_use_id": "call-1",
        "permission_mode": "default",
    }
    assert scene.about[0]["input"] == whole
    post = scene.log[-1][1]
    assert post["tool_response"]["filePath"] == str(tmp_path / "a.txt")
    assert isinstance(post["duration_ms"], int)
    assert "permission_suggestions" in scene.log[2][1]


@pytest.mark.covers("F-13", "F-14")
def test_each_step_is_named_with_its_time(tmp_path: Path) -> None:
    assert ALL == ["find", "validate", "backfill", "hooks before", "permission", "run", "hooks after", "size"]
    done = Scene(tmp_path, "allow Bash").bash("sleep 0.05")
    assert steps(done) == ALL
    times = dict(done.steps)
    assert times["run"] >= 50_000
    assert all(time >= 0 for time in times.values())


def test_what_a_call_that_ends_early_went_through(tmp_path: Path) -> None:
    assert steps(Scene(tmp_path).now("Nothing")) == ALL[:1]
    assert steps(Scene(tmp_path).now("Bash")) == ALL[:2]
    assert steps(Scene(tmp_path).hook(PRE, {"continue": False}).bash("true")) == ALL[:4]
    assert steps(Scene(tmp_path).hook(PRE, {"decision": "block"}).bash("true")) == ALL[:5]


# --- find, validate, backfill -------------------------------------------------------------------------------------


def test_an_unknown_tool_is_told_which_there_are(tmp_path: Path) -> None:
    scene = Scene(tmp_path).hook(PRE)
    done = scene.now("Grepp", pattern="x")
    assert done.answer.is_error
    assert done.answer.text == "There is no tool 'Grepp'. Available: Bash, Read, Edit."
    assert not done.denied
    assert scene.log == []
    nobody = asyncio.run(Toolset([], place=Workspace("/")).run(ToolCall("c", "X", {}), scene))
    assert nobody.answer.text == "There is no tool 'X'. Available: none."


WRONG_INPUTS: list[tuple[dict[str, Any], str]] = [
    ({}, "missing required field `command`"),
    ({"command": 5}, "Expected `str`, got `int` - at `$.command`"),
    ({"commnd": "touch made"}, "missing required field `command`. Unknown field 'commnd'"),
    ({"command": "touch made", "timeout": 0}, "`$.timeout`"),
    ({"command": ["touch", "made"]}, "got `array`"),
]


@pytest.mark.parametrize(("input", "words"), WRONG_INPUTS)
def test_a_wrong_input_is_told_in_words_and_nobody_is_asked(tmp_path: Path, input: dict[str, Any], words: str) -> None:
    scene = Scene(tmp_path, "allow Bash").hook(PRE)
    done = scene.now("Bash", **input)
    assert done.answer.is_error
    assert words in done.answer.text
    assert done.answer.text.startswith("The input of 'Bash' is invalid")
    assert scene.log == []
    assert not scene.made()


@pytest.mark.parametrize("depth", [MOST_DEEP, 100_000])
def test_a_deep_input_is_refused_before_anybody_follows_it(tmp_path: Path, depth: int) -> None:
    value: Any = "x"
    for _ in range(depth):
        value = {"a": [value]}
    scene = Scene(tmp_path, "allow Bash").hook(PRE)
    done = scene.now("Bash", command="touch made", more=value)
    assert "is nested too deeply. Nothing was done" in done.answer.text
    assert scene.log == []


def test_paths_are_made_whole() -> None:
    cases = {"a": "/w/a", "../a": "/w/../a", "/a": "/a", "~/a": "/h/a", "~x/a": "/w/~x/a", "": ""}
    assert {path: whole_path(path, "/w", "/h") for path in cases} == cases
    assert whole_path("a", "/", "/h") == "/a"
    assert whole_path("~/a", "/w", "") == "/w/~/a"


def test_rules_and_hooks_see_the_whole_path_from_where_the_session_stands_now(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/secret").write_text("x")
    scene = Scene(tmp_path, f"deny Read(/{tmp_path}/sub/secret)").hook(PRE)
    scene.kit.place.cwd = str(tmp_path / "sub")
    done = scene.now("Read", file_path="secret")
    assert done.denied
    assert scene.log[0][1]["tool_input"] == {"file_path": str(tmp_path / "sub/secret")}


# --- hooks before -------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-24", "I-04", "I-12")
@pytest.mark.parametrize("mode", ["default", "bypassPermissions", "acceptEdits", "dontAsk"])
def test_a_hooks_no_is_told_to_the_model_and_nothing_runs(tmp_path: Path, mode: str) -> None:
    """Also over allow rules and in every mode."""
    no = own(permissionDecision="deny", permissionDecisionReason="not on a Friday")
    scene = Scene(tmp_path, "allow Bash", mode=mode).hook(PRE, no).hook(POST).hook(FAILED)
    done = scene.bash("touch made")
    assert (done.answer.is_error, done.denied, done.stop) == (True, True, None)
    assert "not on a Friday" in done.answer.text
    assert scene.names == ["PreToolUse", "deny"]
    assert not scene.made()


@pytest.mark.covers("I-04")
def test_a_guard_that_cannot_be_asked_refuses_and_one_that_fails_does_not(tmp_path: Path) -> None:
    def fails(_: dict[str, Any]) -> None:
        raise KeyError

    scene = Scene(tmp_path, "allow Bash").hook(PRE, fails)
    assert not scene.bash("touch made").denied
    assert "KeyError" in scene.warnings[0]
    late = Scene(tmp_path, "allow Bash")
    late.hooks.append(Hook(PRE, lambda _: asyncio.Event().wait(), seconds=0.01, name="slow"))
    done = late.bash("touch other")
    assert done.denied
    assert "'slow', which guards this, took longer than 0.01 seconds" in done.answer.text
    assert not late.made("other")


@pytest.mark.covers("I-12")
def test_a_hooks_yes_stands_for_a_rule_but_never_beats_a_deny_or_an_ask(tmp_path: Path) -> None:
    yes = own(permissionDecision="allow", permissionDecisionReason="harmless")
    scene = Scene(tmp_path).hook(PRE, yes)
    assert not scene.bash("touch made").answer.is_error
    assert scene.log[1] == ("allow", "harmless")
    scene = Scene(tmp_path, "deny Bash(touch:*)").hook(PRE, yes)
    done = scene.bash("touch other")
    assert (done.denied, scene.names) == (True, ["PreToolUse", "deny"])
    assert "a deny rule of source 'session': Bash(touch:*)" in done.answer.text
    scene = Scene(tmp_path, "ask Bash(touch:*)").hook(PRE, yes)
    assert scene.bash("touch other").denied  # nobody is there to be asked
    assert scene.names == ["PreToolUse", "ask", "deny"]
    assert not scene.made("other")


@pytest.mark.covers("I-12")
def test_a_hook_may_want_it_asked(tmp_path: Path) -> None:
    ask = own(permissionDecision="ask", permissionDecisionReason="please check")
    scene = Scene(tmp_path, "allow Bash", mode="bypassPermissions", answers=("allow",)).hook(PRE, ask)
    assert not scene.bash("touch made").answer.is_error
    assert scene.about[0]["decision_reason"] == "please check"
    assert scene.made()


@pytest.mark.covers("I-12")
def test_a_rewritten_input_is_decided_again(tmp_path: Path) -> None:
    """The deny rule is matched against the input before and after."""
    scene = Scene(tmp_path, "allow Bash", "deny Bash(touch made)").hook(PRE, rewritten(command="touch made"))
    assert scene.bash("echo harmless").denied  # after
    scene = Scene(tmp_path, "allow Bash", "deny Bash(touch made)").hook(PRE, rewritten(command="echo harmless"))
    assert scene.bash("touch made").denied  # before
    assert not scene.made()
    scene = Scene(tmp_path, "allow Bash(touch:*)").hook(PRE, rewritten(command="touch other"))
    assert not scene.bash("touch made").answer.is_error
    assert (scene.made(), scene.made("other")) == (False, True)
    scene = Scene(tmp_path, "allow Bash(echo:*)").hook(PRE, rewritten(command="touch third"))
    assert scene.bash("echo x").denied  # allow holds for what will run
    assert not scene.made("third")


def test_a_rewritten_input_is_validated_again(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "allow Bash").hook(PRE, rewritten(cmd="touch made"))
    done = scene.bash("touch made")
    assert "is invalid" in done.answer.text
    assert (scene.made(), scene.names) == (False, ["PreToolUse"])


def test_a_hook_cannot_change_the_input_in_place(tmp_path: Path) -> None:
    def spoil(facts: dict[str, Any]) -> None:
        facts["tool_input"]["command"] = "echo harmless"

    scene = Scene(tmp_path, "deny Bash(touch:*)", "allow Bash").hook(PRE, spoil)
    assert scene.bash("touch made").denied
    call = ToolCall("c", "Bash", {"command": "touch made"})
    scene.play(lambda: scene.hands().run(call, scene))
    assert call.input == {"command": "touch made"}
    assert not scene.made()


@pytest.mark.covers("I-10")
def test_a_hook_may_end_the_run(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "allow Bash").hook(PRE, {"continue": False, "stopReason": "enough"})
    done = scene.bash("touch made")
    assert (done.stop, done.denied, done.answer.text) == ("enough", True, "enough")
    assert not scene.made()


def test_context_of_hooks_before_and_after_is_kept_in_order(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "allow Bash")
    scene.hook(PRE, own(additionalContext="before")).hook(POST, own(additionalContext="after"))
    assert scene.bash("true").context == ("before", "after")
    refused = Scene(tmp_path).hook(PRE, {"decision": "block"} | own(additionalContext="why"))
    assert refused.bash("touch x").context == ("why",)


def test_a_hook_for_another_tool_is_not_asked(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "allow Bash").hook(PRE, {"decision": "block"}, matcher="Edit|Read")
    assert not scene.bash("true").denied
    assert scene.names == ["allow"]


# --- permission ---------------------------------------------------------------------------------------------------


def test_where_nobody_is_there_the_answer_is_no_and_says_how_to_allow_it(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    done = scene.bash("touch made")
    assert done.denied
    assert "no user can be asked here" in done.answer.text
    assert "permissions.allow" in done.answer.text
    assert scene.names == ["ask", "deny"]
    assert not scene.made()


def test_a_person_allows(tmp_path: Path) -> None:
    scene = Scene(tmp_path, answers=("allow",))
    assert not scene.bash("touch made").answer.is_error
    assert scene.names[:3] == ["ask", "asked", "allow"]
    assert scene.made()
    about = scene.about[0]
    assert (about["tool_name"], about["input"], about["tool_use_id"]) == ("Bash", {"command": "touch made"}, "call-1")
    assert about["description"] == "touch made"
    assert about["suggestions"]


@pytest.mark.parametrize(
    ("said", "text", "stop"),
    [
        ("deny", DENIED, None),
        ('{"behavior":"deny","message":"not today"}', "not today", None),
        ('{"behavior":"deny","message":"stop","interrupt":true}', "stop", "stop"),
        ('{"behavior":"deny","interrupt":true}', DENIED, DENIED),
        ("perhaps", "The answer to the question is invalid: perhaps", None),
        ('{"behavior":"allow","updatedInput":5}', "is invalid", None),
    ],
)
def test_a_person_denies(tmp_path: Path, said: str, text: str, stop: str | None) -> None:
    scene = Scene(tmp_path, answers=(said,))
    done = scene.bash("touch made")
    assert (done.denied, done.stop, done.answer.is_error) == (True, stop, True)
    assert text in done.answer.text
    assert scene.names == ["ask", "asked", "deny"]
    assert not scene.made()


def test_a_person_changes_the_input_but_not_past_a_deny_rule(tmp_path: Path) -> None:
    other = '{"behavior":"allow","updatedInput":{"command":"touch other"}}'
    scene = Scene(tmp_path, answers=(other,))
    assert not scene.bash("touch made").answer.is_error
    assert (scene.made(), scene.made("other")) == (False, True)
    (tmp_path / "other").unlink()
    scene = Scene(tmp_path, "deny Bash(touch other)", answers=(other,))
    done = scene.bash("touch made")
    assert done.denied
    assert "a deny rule" in done.answer.text
    scene = Scene(tmp_path, answers=('{"behavior":"allow","updatedInput":{"cmd":"touch made"}}',))
    assert "is invalid" in scene.bash("touch made").answer.text
    assert (scene.made(), scene.made("other")) == (False, False)
    scene = Scene(tmp_path, answers=('{"behavior":"allow","updatedInput":{"command":"touch made"}}',))
    assert not scene.bash("touch made").answer.is_error  # as it was
    assert scene.made()


ANSWERS: list[tuple[object, list[str], bool]] = [
    (own(decision={"behavior": "allow"}), ["ask", "PermissionRequest", "allow"], True),
    (HookResult("allow", reason="known"), ["ask", "PermissionRequest", "allow"], True),
    (own(decision={"behavior": "deny", "message": "no"}), ["ask", "PermissionRequest", "deny"], False),
    (HookResult("deny"), ["ask", "PermissionRequest", "deny"], False),
    (None, ["ask", "PermissionRequest", "asked", "allow"], True),
    (own(permissionDecision="ask"), ["ask", "PermissionRequest", "asked", "allow"], True),
]


@pytest.mark.parametrize(("says", "names", "runs"), ANSWERS)
def test_a_hook_may_answer_the_question(tmp_path: Path, says: Any, names: list[str], *, runs: bool) -> None:
    scene = Scene(tmp_path, answers=("allow",)).hook(ASKED, lambda _: says)
    done = scene.bash("touch made")
    assert scene.names[: len(names)] == names
    assert (scene.made(), done.denied) == (runs, not runs)


def test_what_needs_no_question_is_not_put_to_a_hook(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "allow Bash").hook(ASKED, {"decision": "block"})
    assert not scene.bash("touch made").denied
    scene = Scene(tmp_path, "deny Bash").hook(ASKED, own(decision={"behavior": "allow"}))
    assert scene.bash("touch other").denied
    assert scene.names == ["deny"]


def test_the_policy_is_read_at_each_call(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "allow Bash")
    hands = scene.hands()

    async def main() -> tuple[InvocationResult, InvocationResult]:
        first = await hands.run(ToolCall("1", "Bash", {"command": "touch one"}), scene)
        scene.policy = EnginePolicy(rules=("deny Bash",))
        return first, await hands.run(ToolCall("2", "Bash", {"command": "touch two"}), scene)

    first, second = scene.play(main)
    assert (first.denied, second.denied) == (False, True)
    assert (scene.made("one"), scene.made("two")) == (True, False)


# --- run, hooks after ---------------------------------------------------------------------------------------------


@pytest.mark.covers("I-04")
def test_a_hook_after_it_audits(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "allow Bash").hook(POST).hook(FAILED)
    scene.bash("echo out; sleep 0.02")
    assert scene.names[-1] == "PostToolUse"
    facts = scene.log[-1][1]
    assert facts["tool_response"]["stdout"] == "out\n"
    assert facts["tool_input"] == {"command": "echo out; sleep 0.02"}
    assert facts["duration_ms"] >= 20


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("[hidden]", "[hidden]"),
        ({"stdout": "ä\n", "stderr": "", "interrupted": False}, "ä"),  # the tool's own shape: as it would have told it
        ({"stdout": "a\n", "stderr": "b\n", "interrupted": False}, "a\nb"),
        ({"stdout": "", "stderr": "", "interrupted": False}, "(no output)"),
        ({"stdout": 1}, '{"stdout": 1}'),
        ({"other": "ä"}, '{"other": "ä"}'),
        ([1], "[1]"),
    ],
)
def test_a_hook_after_it_replaces_what_the_model_sees(tmp_path: Path, output: object, text: str) -> None:
    scene = Scene(tmp_path, "allow Bash").hook(POST, own(updatedToolOutput=output))
    done = scene.bash("echo secret")
    assert (done.answer.text, done.answer.data, done.answer.is_error) == (text, output, False)


def test_a_hook_after_it_adds_to_it_and_may_end_the_run(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "allow Bash").hook(POST, {"decision": "block", "reason": "look again"})
    done = scene.bash("echo out")
    assert (done.answer.text, done.context, done.stop, done.denied) == ("out", ("look again",), None, False)
    scene = Scene(tmp_path, "allow Bash").hook(POST, {"continue": False, "stopReason": "enough"})
    done = scene.bash("echo out")
    assert (done.answer.text, done.stop) == ("out", "enough")
    assert Scene(tmp_path, "allow Bash").hook(POST, {"decision": "block"}).bash("true").context == ()


def test_after_a_failure_the_other_hook_is_told(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "allow Bash").hook(POST).hook(FAILED, own(additionalContext="try again"))
    done = scene.bash("echo oops >&2; exit 3")
    assert scene.names[-1] == "PostToolUseFailure"
    facts = scene.log[-1][1]
    assert "oops" in facts["error"]
    assert facts["is_interrupt"] is False
    assert (done.answer.is_error, done.answer.failed, done.context) == (True, True, ("try again",))
    scene = Scene(tmp_path).hook(POST).hook(FAILED, own(updatedToolOutput="nothing there"))
    done = scene.now("Read", file_path="missing")
    assert scene.names == ["allow", "PostToolUseFailure"]
    assert (done.answer.text, done.answer.is_error) == ("nothing there", True)


def test_hooks_hear_of_a_tool_that_crashes(tmp_path: Path) -> None:
    async def crash(_: Input, __: ToolContext) -> ToolAnswer:
        raise ZeroDivisionError("by zero")

    scene = Scene(tmp_path, "allow Crash").hook(FAILED, own(additionalContext="known: use the other one"))
    scene.more = [Tool(name="Crash", about="Crashes.", input=Input, run=crash)]
    done = scene.now("Crash")
    assert done.answer.text == "The tool itself failed: ZeroDivisionError: by zero"
    assert (done.answer.is_error, done.context, steps(done)) == (True, ("known: use the other one",), ALL)
    assert scene.log[-1][1]["error"] == done.answer.text


@pytest.mark.parametrize(
    "made",
    [None, "text", ToolAnswer("text"), ToolAnswer((Text("a"), "b")), ToolAnswer((Text(7),))],  # type: ignore[arg-type]
)
def test_what_is_no_answer_is_the_tools_failure_and_not_the_runs(tmp_path: Path, made: Any) -> None:
    async def run(given: Any, calling: ToolContext) -> Any:
        return made

    scene = Scene(tmp_path, "allow Own").hook(FAILED)
    scene.more.append(Tool(name="Own", about="", input=Input, run=run))
    done = scene.now("Own")
    assert (done.answer.is_error, done.answer.text) == (
        True, "The tool itself failed: it did not return a 'ToolAnswer' of 'Text', 'Image' and 'Document'",
    )  # fmt: skip
    assert scene.names == ["allow", "PostToolUseFailure"]


def test_a_person_who_declines_what_a_tool_asks_ends_the_run(tmp_path: Path) -> None:
    async def run(given: Any, calling: ToolContext) -> Any:
        raise DeclinedError("The user does not want to answer.")

    scene = Scene(tmp_path, "allow Own")
    scene.more.append(Tool(name="Own", about="", input=Input, run=run))
    done = scene.now("Own")
    assert (done.answer.is_error, done.answer.text) == (True, "The user does not want to answer.")
    assert done.stop == "The user does not want to answer."


def test_hooks_hear_of_an_interrupt_and_nobody_waits_for_them(tmp_path: Path) -> None:
    """But not of one before the tool ran: there was no failure."""
    heard = asyncio.Event()

    async def slow(facts: dict[str, Any]) -> None:
        scene.log.append(("told", facts))
        heard.set()
        await asyncio.Event().wait()

    async def main() -> None:
        hands = scene.hands()
        call = asyncio.ensure_future(hands.run(ToolCall("c", "Bash", {"command": "touch begun; sleep 600"}), scene))
        await until(lambda: scene.made("begun"))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await heard.wait()
        await hands.hooks.close()

    scene = Scene(tmp_path, "allow Bash")
    scene.hooks = [Hook(FAILED, slow, "Bash", seconds=0.05), Hook(FAILED, slow, "Read"), Hook(POST, slow)]
    scene.play(main)
    [facts] = [facts for name, facts in scene.log if name == "told"]
    assert (facts["is_interrupt"], facts["error"]) == (True, INTERRUPTED)
    assert facts["tool_input"]["command"].startswith("touch begun")
    assert facts["duration_ms"] >= 0


def test_a_call_that_was_refused_is_no_failure(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "deny Bash").hook(POST).hook(FAILED)
    scene.bash("true")
    assert scene.names == ["deny"]


# --- size ---------------------------------------------------------------------------------------------------------


class Wanted(Input, frozen=True):
    size: int = 0


async def write(given: Wanted, calling: ToolContext) -> ToolAnswer:
    calling.progress("writing")
    if given.size < 0:
        raise ToolError("x" * -given.size)
    return make_answer("".join(chr(ord("a") + at * 26 // max(given.size, 1)) for at in range(given.size)))


LONG = Tool(name="Long", about="Writes.", input=Wanted, run=write, read_only=True, most_shown=3_000)


def long(folder: Path, size: int, *, spill: bool = True) -> tuple[Scene, InvocationResult]:
    scene = Scene(folder, "allow Long")
    scene.more = [LONG]
    if not spill:
        scene.kit.place.spill = ""
    return scene, scene.now("Long", size=size)


def test_what_fits_is_left_alone(tmp_path: Path) -> None:
    scene, done = long(tmp_path, 3_000)
    assert len(done.answer.text) == 3_000
    assert not scene.made("spill")
    assert ("progress", "writing") in scene.log


@pytest.mark.parametrize("size", [3_001, 500_000])
def test_what_is_too_long_is_stored_whole_and_shown_with_both_ends(tmp_path: Path, size: int) -> None:
    done = long(tmp_path, size)[1]
    (stored,) = (tmp_path / "spill").iterdir()
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600
    assert stat.S_IMODE(stored.parent.stat().st_mode) == 0o700
    whole = stored.read_text()
    assert len(whole) == size
    head, rest = done.answer.text.split("\n\n[... ")
    note, tail = rest.split(" ...]\n\n")
    assert (head, tail) == (whole[:2_000], whole[-1_000:])
    assert f"{size - 3_000:,} of {size:,} characters left out" in note
    assert f"all of it is in '{stored}'" in note


def test_where_it_cannot_be_stored_it_is_only_cut(tmp_path: Path) -> None:
    assert "characters left out ...]" in long(tmp_path, 4_000, spill=False)[1].answer.text
    (tmp_path / "spill").write_text("a file where the folder should be")
    assert "characters left out ...]" in long(tmp_path, 4_000)[1].answer.text


def test_errors_and_replaced_outputs_are_cut_too(tmp_path: Path) -> None:
    assert len(long(tmp_path, -10_000)[1].answer.text) < 3_300
    scene = Scene(tmp_path, "allow Long").hook(POST, own(updatedToolOutput="y" * 50_000))
    scene.more = [LONG]
    done = scene.now("Long")
    assert len(done.answer.text) < 3_300


# --- cancellation -------------------------------------------------------------------------------------------------


def cancelled(scene: Scene, when: Callable[[], object], name: str, /, **input: Any) -> InvocationResult:
    async def main() -> InvocationResult:
        task = asyncio.ensure_future(scene.call(name, **input))
        await until(when)
        task.cancel()
        return await task

    return scene.play(main)


def test_cancelled_while_a_hook_is_asked_it_never_ran(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "allow Bash")
    scene.hook(PRE, lambda _: asyncio.Event().wait())
    done = cancelled(scene, lambda: scene.log, "Bash", command="touch made")
    assert (done.answer.text, done.answer.is_error, steps(done)) == (NeverRan.INTERRUPTED, True, ALL[:4])
    assert not scene.made()


def test_cancelled_while_a_person_is_asked_it_never_ran(tmp_path: Path) -> None:
    class Waiting(Scene):
        async def ask(self, text: str, about: Any = None) -> str:
            await super().ask(text, about)
            await asyncio.Event().wait()
            raise AssertionError

    scene = Waiting(tmp_path, answers=("allow",))
    done = cancelled(scene, lambda: "asked" in scene.names, "Bash", command="touch made")
    assert (done.answer.text, steps(done)) == (NeverRan.INTERRUPTED, ALL[:5])
    assert not scene.made()


def test_cancelled_while_it_runs_nobody_knows_and_nothing_is_left(tmp_path: Path) -> None:
    nap = new_nap()
    scene = Scene(tmp_path, "allow Bash").hook(POST)
    with pytest.raises(asyncio.CancelledError):
        cancelled(scene, lambda: with_word(nap), "Bash", command=f"sleep {nap}; touch made")
    assert with_word(nap) == []
    assert not scene.made()
    assert scene.names == ["allow"]


# --- what is known before it runs ---------------------------------------------------------------------------------


def test_which_calls_may_run_beside_others_and_which_again(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.kit = BuiltinTools(scene.kit.place, ENV, only_reads=lambda command: command == "ls")
    hands = scene.hands()

    def known(name: str, **input: Any) -> tuple[bool, bool]:
        call = ToolCall("c", name, input)
        return hands.is_concurrent(call), hands.is_repeatable(call)

    assert known("Read", file_path="a") == (True, True)
    assert known("Edit", file_path="a", old_string="b", new_string="c") == (False, False)
    assert known("Bash", command="ls") == (True, True)
    assert known("Bash", command="touch a") == (False, False)
    assert known("Bash", command="ls", run_in_background=True) == (False, False)
    assert known("Nothing") == (True, False)


def test_a_trait_that_fails_is_a_no(tmp_path: Path) -> None:
    """A session with such a call must still be taken up again."""

    def broken(given: Any) -> bool:
        raise ValueError(given)

    hands = Scene(tmp_path).hands()
    hands.add([Tool(name="Odd", about="", input=Input, run=_nothing, concurrent=broken, repeatable=broken)])
    call = ToolCall("c", "Odd", {})
    assert (hands.is_concurrent(call), hands.is_repeatable(call)) == (False, False)


def test_a_call_in_one_line_whatever_it_is(tmp_path: Path) -> None:
    """For a screen that shows a call when it starts: never an exception, and the tool's own words where it has some."""

    def broken(given: Any) -> str:
        raise ValueError(given)

    hands = Scene(tmp_path).hands()
    hands.add([Tool(name="Odd", about="", input=Input, run=_nothing, summary=broken)])
    deep: Any = "x"
    for _ in range(50_000):
        deep = [deep]
    calls: list[tuple[str, dict[str, Any], str]] = [
        ("Bash", {"command": "make test\nmake"}, "make test ..."),
        ("Read", {"file_path": "a.py", "offset": 5, "limit": 2}, "Read a.py (lines 5-6)"),
        ("Read", {"path": "a.py"}, "Read"),
        ("Read", {"file_path": deep}, "Read"),
        ("Read", {"file_path": "\ud800"}, "Read"),
        ("Odd", {}, "Odd"),
        ("Nope", {}, "Nope"),
    ]
    assert [hands.line(ToolCall("c", name, input)) for name, input, _ in calls] == [line for _, _, line in calls]


async def _nothing(given: Any, calling: ToolContext) -> ToolAnswer:
    return make_answer("")


def test_tools_are_loaded_at_their_first_call(tmp_path: Path) -> None:
    hands = Scene(tmp_path).hands()
    assert [spec.name for spec in hands.specs] == ["Bash", "Read", "Edit"]
    assert hands.tool("Read") is hands.tool("Read")
    assert hands.tool("Nothing") is None


@pytest.mark.parametrize("agent", [None, ("agent-7", "Explore")])
def test_hooks_of_a_sub_agents_calls_know_whose_they_are(tmp_path: Path, agent: tuple[str, str] | None) -> None:
    """At all four points that have a tool (stream-json 10); elsewhere the two facts are not there at all."""
    scene = Scene(tmp_path, "ask Bash(touch *)", "allow Bash(exit *)", answers=("allow",))
    scene.agent = agent
    for point in (PRE, POST, FAILED, ASKED):
        scene.hook(point)
    scene.now("Bash", command="touch made")
    scene.now("Bash", command="exit 3")
    told = {name: facts for name, facts in scene.log if isinstance(facts, dict)}
    assert set(told) == {"PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest"}
    expected = {"agent_id": agent[0], "agent_type": agent[1]} if agent is not None else {}
    for facts in told.values():
        assert {key: facts[key] for key in ("agent_id", "agent_type") if key in facts} == expected
    assert scene.about[0].get("agent_id") == expected.get("agent_id")  # and who is asked knows it, too


def test_who_looks_elsewhere_is_told_that_a_person_is_asked(tmp_path: Path) -> None:
    """And only then: not where a rule, a hook or nobody at all answers. The question does not wait for it."""
    notice = HookPoint.NOTIFICATION

    async def slow(facts: dict[str, Any]) -> None:
        told.append(facts["message"])
        await asyncio.Event().wait()

    async def asked(scene: Scene) -> None:
        hands = scene.hands()
        done = await hands.run(ToolCall("c", "Bash", {"command": "touch made"}), scene)
        assert not done.answer.is_error
        await hands.hooks.close()

    told: list[str] = []
    scene = Scene(tmp_path, answers=("allow",))
    scene.hooks.append(Hook(notice, slow, seconds=0.05))
    scene.play(lambda: asked(scene))
    assert scene.made()
    assert told == ["mainspring needs your permission to use Bash"]

    for other in (
        Scene(tmp_path, "allow Bash", answers=("deny",)),
        Scene(tmp_path, "deny Bash", answers=("allow",)),
        Scene(tmp_path),
    ):
        other.hook(notice).bash("touch made")
        assert "Notification" not in other.names
    answered = Scene(tmp_path, answers=("allow",)).hook(ASKED, own(decision={"behavior": "allow"})).hook(notice)
    answered.bash("touch made")
    assert answered.names == ["ask", "PermissionRequest", "allow"]


# --- the classifier of mode auto ----------------------------------------------------------------------------------


class Judge:
    def __init__(
        self, scene: Scene, kind: Literal["allow", "ask"] = "allow", *, then: EnginePolicy | None = None
    ) -> None:
        self._scene, self._then = scene, then
        self._kind: Literal["allow", "ask"] = kind

    async def judge(self, asked: PermissionRequest) -> ClassifierAnswer:
        self._scene.log.append(("classifier", dict(asked.input)))
        self._scene.policy = self._then or self._scene.policy
        return ClassifierAnswer(self._kind, "so it says")


def edit(scene: Scene, **options: Any) -> InvocationResult:
    (scene.folder / "a.txt").write_text("old")
    scene.classifier = lambda: Judge(scene, **options)

    async def both() -> InvocationResult:
        hands = scene.hands()
        await hands.run(ToolCall("call-0", "Read", {"file_path": "a.txt"}), scene)
        scene.log.clear()
        return await hands.run(
            ToolCall("call-1", "Edit", {"file_path": "a.txt", "old_string": "old", "new_string": "new"}), scene
        )

    return scene.play(both)


def test_the_classifier_answers_after_the_hooks_and_before_the_user(tmp_path: Path) -> None:
    scene = Scene(tmp_path, mode="auto", answers=(DENIED,)).hook(ASKED)
    assert not edit(scene).answer.is_error
    assert scene.names == ["ask", "PermissionRequest", "classifier", "allow"]
    assert (tmp_path / "a.txt").read_text() == "new"


def test_a_hook_that_answers_the_question_leaves_nothing_to_it(tmp_path: Path) -> None:
    for behavior in ("deny", "allow"):
        scene = Scene(tmp_path, mode="auto").hook(ASKED, own(decision={"behavior": behavior}))
        assert edit(scene).denied is (behavior == "deny")
        assert "classifier" not in scene.names


def test_a_hook_before_the_call_decides_first(tmp_path: Path) -> None:
    for decision in ("deny", "ask", "allow"):
        scene = Scene(tmp_path, mode="auto").hook(PRE, own(permissionDecision=decision))
        edit(scene)
        assert "classifier" not in scene.names


def test_a_rule_that_was_added_while_it_thought_is_final(tmp_path: Path) -> None:
    scene = Scene(tmp_path, mode="auto")
    done = edit(scene, then=EnginePolicy("auto", rules=("deny Edit(a.txt)",)))
    assert done.denied
    assert "deny rule" in done.answer.text
    assert (tmp_path / "a.txt").read_text() == "old"
    scene = Scene(tmp_path, mode="auto")
    assert edit(scene, then=EnginePolicy("auto", rules=("ask Edit(a.txt)",))).denied  # and nobody can be asked


def test_a_tool_of_the_host_is_not_left_to_it_whatever_its_name(tmp_path: Path) -> None:
    async def run(given: Input, context: ToolContext) -> ToolAnswer:
        return make_answer("did something else")

    class WriteInput(Input, frozen=True):
        file_path: str

    scene = Scene(tmp_path, mode="auto")
    scene.more = [Tool(name="Write", about="", input=WriteInput, run=run)]
    scene.classifier = lambda: Judge(scene)
    assert scene.now("Write", file_path="a.txt").denied
    assert "classifier" not in scene.names


def test_what_it_does_not_allow_is_asked_with_its_reason(tmp_path: Path) -> None:
    scene = Scene(tmp_path, mode="auto", answers=("allow",))
    assert not edit(scene, kind="ask").answer.is_error
    assert scene.names == ["ask", "classifier", "ask", "asked", "allow"]
    assert scene.about[0]["decision_reason"].endswith("the classifier does not allow it: so it says")
    assert (tmp_path / "a.txt").read_text() == "new"


# --- changes of files, before they are asked about ------------------------------------------------------------------


def test_an_edit_that_cannot_succeed_is_refused_before_anybody_is_asked(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\n")
    scene = Scene(tmp_path, answers=("allow",))
    done = scene.now("Edit", file_path="f", old_string="b", new_string="c")
    assert "('old_string') was not found" in done.answer.text
    assert "asked" not in scene.names
    assert not done.denied


def test_a_file_that_changed_since_is_not_asked_about(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\n")
    scene = Scene(tmp_path, answers=("allow",))

    async def main() -> InvocationResult:
        await scene.call("Read", file_path="f")
        (tmp_path / "f").write_text("a b\n")
        return await scene.call("Edit", file_path="f", old_string="a", new_string="c")

    assert "changed since it was read" in scene.play(main).answer.text
    assert "asked" not in scene.names


def test_an_unread_file_that_may_be_read_is_read_first_and_that_is_noted(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one\ntwo\n")
    scene = Scene(tmp_path, answers=("allow",))
    done = scene.now("Edit", file_path="f", old_string="two", new_string="2")
    assert not done.answer.is_error, done.answer.text
    assert (tmp_path / "f").read_text() == "one\n2\n"
    assert ("allow", f"'{tmp_path}/f' is read first: it only reads, where reading is free") in scene.log
    assert scene.about[0]["preview"].splitlines()[2:] == ["@@ -1,2 +1,2 @@", " one", "-two", "+2"]


def test_an_edit_that_needs_no_question_reads_first_too(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one\n")
    scene = Scene(tmp_path, mode="acceptEdits")
    assert not scene.now("Edit", file_path="f", old_string="one", new_string="1").answer.is_error
    assert (tmp_path / "f").read_text() == "1\n"


@pytest.mark.parametrize("rules", [("ask Read(f)",), ()])
def test_where_reading_is_not_free_it_is_asked_first_and_a_refusal_reveals_nothing(
    tmp_path: Path, rules: tuple[str, ...]
) -> None:
    """The answers are the same, whatever is in the file, and whether it exists."""
    answers: set[str] = set()
    for content in ("a\n", "b\n", None):
        file = tmp_path / "f"
        file.unlink(missing_ok=True)
        if content is not None:
            file.write_text(content)
        scene = Scene(tmp_path, *rules, answers=("deny",))
        if not rules:
            scene.hook(HookPoint.PRE_TOOL_USE, matcher="Read")
        done = scene.now("Edit", file_path="f", old_string="a", new_string="c")
        assert "asked" in scene.names
        assert done.denied
        assert "preview" not in scene.about[0]
        answers.add(done.answer.text)
    assert len(answers) == 1


def test_a_failed_edit_does_not_make_the_file_count_as_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\n")
    scene = Scene(tmp_path, answers=("allow",))
    scene.now("Edit", file_path="f", old_string="b", new_string="c")
    assert scene.kit.place.read.newest() == []


def test_the_output_of_an_interrupted_command_goes_to_the_model(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "allow Bash")

    async def main() -> InvocationResult:
        command = "echo one; echo two; touch begun; sleep 600"
        call = asyncio.ensure_future(scene.hands().run(ToolCall("c", "Bash", {"command": command}), scene))
        await until(lambda: scene.made("begun") and ("progress", "one\ntwo") in scene.log)
        call.cancel()
        return await call

    done = scene.play(main)
    assert done.answer.is_error
    assert done.answer.text == f"{INTERRUPTED_AFTER}\none\ntwo"


def test_a_refusal_by_a_hook_names_the_hook_to_the_user_and_not_to_the_model(tmp_path: Path) -> None:
    scene = Scene(tmp_path).hook(
        HookPoint.PRE_TOOL_USE,
        {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny",
                                "permissionDecisionReason": "no exit here"}},
    )  # fmt: skip
    done = scene.bash("exit")
    assert (done.denied, done.answer.text) == (True, "no exit here")
    assert done.answer.shown == Rendering("the hook 'mine'")
