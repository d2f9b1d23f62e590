"""A tokenizer whose vocabulary is a list of pieces, for tests of metadata."""

from __future__ import annotations

import re


class PieceCodec:
    """Ids are positions in `pieces`; text is split greedily, longest piece first."""

    def __init__(self, *pieces):
        self.pieces = pieces
        ordered = sorted(pieces, key=len, reverse=True)
        self.pattern = re.compile("|".join(map(re.escape, ordered)))

    @property
    def vocab_size(self):
        return len(self.pieces)

    def encode(self, text):
        return [self.pieces.index(piece) for piece in self.pattern.findall(text)]

    def decode(self, token_ids):
        return "".join(self.pieces[token_id] for token_id in token_ids)

    def token_to_id(self, piece):
        return self.pieces.index(piece) if piece in self.pieces else None
