"""What the model sees, and what it costs: layers that edit the view, the system prompt, memory, attachments."""
