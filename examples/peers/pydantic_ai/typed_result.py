from pydantic import BaseModel
from pydantic_ai import Agent


class Weather(BaseModel):
    city: str
    celsius: float


def temperature(city: str) -> float:
    """The temperature in a city, in degrees Celsius."""
    return {"Bonn": 7.5}.get(city, 20.0)


agent = Agent("anthropic:claude-haiku-4-5", tools=[temperature], output_type=Weather)
print(agent.run_sync("Weather in Bonn?").output)
