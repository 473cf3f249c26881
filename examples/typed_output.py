"""An answer in your own type. A wrong value goes back to the model, which corrects it.

python examples/typed_output.py
"""

from dataclasses import dataclass

from mainspring import Agent
from mainspring.testing import Scripted, call, says


@dataclass
class Weather:
    city: str
    celsius: float


# With a key: Agent("haiku", ...)
MODEL = Scripted(
    [
        says(call("StructuredOutput", city="Bonn", celsius="mild")),  # no number: refused
        says(call("StructuredOutput", city="Bonn", celsius=7.5)),
    ]
)

if __name__ == "__main__":
    answer = Agent(MODEL, output=Weather, persist=False).run_sync("Weather in Bonn?")
    print(answer.output.city, answer.output.celsius + 1)
    print("model calls:", len(MODEL.requests))
