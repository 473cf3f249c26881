from pydantic import BaseModel

from mainspring import Agent


class Weather(BaseModel):
    city: str
    celsius: float


def temperature(city: str) -> float:
    """The temperature in a city, in degrees Celsius."""
    return {"Bonn": 7.5}.get(city, 20.0)


print(Agent("haiku", tools=[temperature], output=Weather).run_sync("Weather in Bonn?").output)
