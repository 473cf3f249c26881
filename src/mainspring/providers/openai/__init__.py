"""The two protocols of OpenAI, and of servers that speak them."""
