"""Messages to prompts."""
