"""`AskUserQuestion`: up to four questions with options, which the user answers one after another.

`render_question` formats a question as text, and `match_answer` reads the answer. Both are pure functions, so that a
front end can replace them. The tool exists only in sessions where the user can be asked.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from mainspring.core.errors import ToolError
from mainspring.core.updates import Rendering
from mainspring.tools.base import Input, Tool, ToolAnswer, ToolContext, make_answer

LONGEST = 2_000  # characters of a question or of an option's description
LABEL = 200  # characters of a label
NO_ANSWER = "(no answer)"


class QuestionOption(Input, frozen=True):
    label: Annotated[str, Meta(min_length=1, max_length=LABEL), "One to five words."]
    description: Annotated[str, Meta(max_length=LONGEST), "What choosing it means."] = ""


class UserQuestion(Input, frozen=True, rename="camel"):
    question: Annotated[str, Meta(min_length=1, max_length=LONGEST), "The whole question, with its question mark."]
    options: Annotated[list[QuestionOption], Meta(min_length=2, max_length=4), "Different from each other."]
    header: Annotated[str, Meta(max_length=LABEL), "A word or two, as a title."] = ""
    multi_select: Annotated[bool, "More than one may be chosen."] = False


class QuestionInput(Input, frozen=True):
    questions: Annotated[list[UserQuestion], Meta(min_length=1, max_length=4), "Asked in this order."]


async def run_question(given: QuestionInput, calling: ToolContext) -> ToolAnswer:
    check_questions(given)
    answers: dict[str, str] = {}
    for number, one in enumerate(given.questions, 1):
        said = await calling.ask(render_question(one, number, len(given.questions)))
        answers[one.question] = match_answer(one, said)
    pairs = ", ".join([f'"{question}"="{said}"' for question, said in answers.items()])
    facts = {"questions": msgspec.to_builtins(given.questions), "answers": answers}
    body = "\n".join([f"{question} {said}" for question, said in answers.items()])
    return make_answer(f"User has answered your questions: {pairs}", facts, Rendering(summarize_questions(given), body))


def check_questions(given: QuestionInput) -> None:
    """The texts identify the answers, so they must differ."""
    texts = [one.question for one in given.questions]
    if len(set(texts)) < len(texts):
        raise ToolError("Two questions are the same. Nothing was asked: ask each of them once.")
    for one in given.questions:
        labels = [normalize_answer(option.label) for option in one.options]
        if len(set(labels)) < len(labels):
            raise ToolError(f"Two options of '{one.question[:100]}' share a label. Nothing was asked: rename one.")


def render_question(one: UserQuestion, number: int = 1, of: int = 1) -> str:
    """Format the question as text, with numbered options."""
    title = " ".join([part for part in (f"({number} of {of})" if of > 1 else "", one.header) if part])
    lines = [title, one.question] if title else [one.question]
    for place, option in enumerate(one.options, 1):
        lines.append(f"  {place}. {option.label}" + (f": {option.description}" if option.description else ""))
    lines.append("Numbers, with commas between them, or words of your own." if one.multi_select else WORDS)
    return "\n".join(lines)


WORDS = "A number, or words of your own."


def match_answer(one: UserQuestion, said: str) -> str:
    """The labels that an answer chooses, by number or by name; any other text is the answer itself."""
    parts = said.split(",") if one.multi_select else [said]
    chosen = [chosen_by(one, part) for part in parts]
    if all(chosen):
        return ", ".join(dict.fromkeys(chosen))
    return said.strip() or NO_ANSWER


def chosen_by(one: UserQuestion, said: str) -> str:
    """A label, or an empty text."""
    wanted = normalize_answer(said)
    for place, option in enumerate(one.options, 1):
        if wanted in (str(place), f"{place}.", normalize_answer(option.label)):
            return option.label
    return ""


def normalize_answer(text: str) -> str:
    return " ".join(text.split()).casefold()


def summarize_questions(given: QuestionInput) -> str:
    more = len(given.questions) - 1
    return f"Ask: {given.questions[0].question}" + (f" (and {more} more)" if more else "")


ASK_USER_QUESTION = Tool(
    name="AskUserQuestion",
    about=(
        "Ask the user, and wait for the answer. For choices that neither their words nor the files settle; not "
        "whether you may go on, nor whether a plan is good (ExitPlanMode). Put the option that "
        "you advise first and add '(Recommended)' to its label."
    ),
    input=QuestionInput,
    run=run_question,
    read_only=True,
    concurrent=False,  # one question at a time, and never from a reply that may still be withdrawn
    summary=summarize_questions,
)
