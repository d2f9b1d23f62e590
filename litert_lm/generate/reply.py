"""One reply of a conversation: a request that shows special tokens and forces some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from litert_lm.generate.decoding import Constraint, Decoding
from litert_lm.generate.request import GenerateRequest
from litert_lm.sampling.processors import LogitsProcessor

__all__ = ["ReplyOptions"]


@dataclass(frozen=True, kw_only=True)
class ReplyOptions:
    """How a reply is generated, beside what its session chose.

    Attributes:
        max_output_tokens: its limit; None is the session's, else the context's.
        processors: changes to the logits behind the session's own, in order.
        request_fields: further fields of GenerateRequest.
        constrain: changes what holds the reply to the request's format.
    """

    max_output_tokens: int | None = None
    processors: Sequence[LogitsProcessor] = ()
    request_fields: tuple[tuple[str, object], ...] = ()
    constrain: Callable[[Constraint], Constraint] | None = None

    def request(self, prompt_ids: Sequence[int], num_free: int) -> GenerateRequest:
        """The request for an answer to a prompt of ids."""
        fields = dict(self.request_fields)
        fields["max_new_tokens"] = self.max_output_tokens or max(1, num_free)
        return GenerateRequest.from_options(prompt_ids, fields)

    def decoding(self, decoding: Decoding, plain: Decoding) -> Decoding:
        """How the reply is generated.

        Special tokens are text, because channels and tool calls are written with them,
        and one random sequence goes on from reply to reply.

        Args:
            decoding: of the request.
            plain: of a session's answer to what was prefilled.
        """
        constraint = decoding.constraint
        if constraint is not None and self.constrain is not None:
            constraint = self.constrain(constraint)
        return replace(
            decoding,
            constraint=constraint,
            sampler=plain.sampler,
            output=plain.output,
            processors=decoding.processors.followed_by(self.processors),
        )
