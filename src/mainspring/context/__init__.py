"""What the model sees, and what it costs: layers that act on the view by edits, the prompt, memory, attachments."""
