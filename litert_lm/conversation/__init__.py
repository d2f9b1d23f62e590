"""Conversations with a model: messages in, messages out."""

from litert_lm.conversation.conversation import Conversation

__all__ = ["Conversation"]
