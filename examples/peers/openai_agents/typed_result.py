from agents import Agent, Runner, function_tool
from pydantic import BaseModel


class Weather(BaseModel):
    city: str
    celsius: float


@function_tool
def temperature(city: str) -> float:
    """The temperature in a city, in degrees Celsius."""
    return {"Bonn": 7.5}.get(city, 20.0)


agent = Agent("assistant", model="gpt-5-mini", tools=[temperature], output_type=Weather)
print(Runner.run_sync(agent, "Weather in Bonn?").final_output)
