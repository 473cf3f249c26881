"""OpenAI's two protocols, for all servers that speak them."""
