"""One reply of a conversation: a request that shows special tokens and forces some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from litert_lm.generate.answers import Answers
from litert_lm.generate.decoding import Constraint, Decoding
from litert_lm.generate.request import GenerateRequest
from litert_lm.sampling.processors import LogitsProcessor

__all__ = ["ReplyAnswers", "ReplyOptions"]


@dataclass(frozen=True, kw_only=True)
class ReplyOptions:
    """How a reply is generated, beside what its session chose.

    Attributes:
        max_output_tokens: its limit; None is the session's, else the context's.
        processors: changes to the logits behind the session's own, in order.
        request_fields: further fields of GenerateRequest.
    """

    max_output_tokens: int | None = None
    processors: Sequence[LogitsProcessor] = ()
    request_fields: tuple[tuple[str, object], ...] = ()

    def request(self, prompt_ids: Sequence[int], num_free: int) -> GenerateRequest:
        """The request for an answer to a prompt of ids."""
        fields = dict(self.request_fields)
        fields["max_new_tokens"] = self.max_output_tokens or max(1, num_free)
        return GenerateRequest.from_options(prompt_ids, fields)


class ReplyAnswers(Answers):
    """A session's answers as a conversation needs them.

    Special tokens are text, because channels and tool calls are written with them, and
    one random sequence goes on from reply to reply.
    """

    def __init__(self, answers: Answers, options: ReplyOptions) -> None:
        vars(self).update(vars(answers))
        self._answers = answers  # whose random sequence goes on
        self._options = options

    def of_request(
        self,
        request: GenerateRequest,
        context_ids: Sequence[int],
        num_free: int,
        constraint: Constraint | None = None,
    ) -> list[Decoding]:
        """The decoding of the reply."""
        plain = self._answers.plain(num_free)
        decodings = self._answers.of_request(request, context_ids, num_free, constraint)
        return [
            replace(
                decoding,
                sampler=plain.sampler,
                output=plain.output,
                processors=decoding.processors.followed_by(self._options.processors),
            )
            for decoding in decodings
        ]
