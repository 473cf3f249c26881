"""Anthropic's models on Amazon Bedrock and Google Vertex AI."""
