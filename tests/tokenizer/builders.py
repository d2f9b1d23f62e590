"""Small tokenizers of every kind, trained in the test run."""

from __future__ import annotations

import io
import json

import tokenizers
from sentencepiece import SentencePieceTrainer
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

TEXT = (
    "The quick brown fox jumps over the lazy dog. Pack my box with five dozen jugs.\n"
    "Größe, naïve café, 日本語の文章, emoji 😀 and 🚀. Isn't it so? a b c 0123456789\n"
) * 20


def train_sentencepiece(**options):
    model = io.BytesIO()
    options = {
        "model_type": "bpe",
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "control_symbols": ["<turn>"],
        "user_defined_symbols": ["<user>"],
        **options,
    }
    SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT.splitlines()),
        model_writer=model,
        vocab_size=420,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


def train_huggingface(model, trainer, **parts):
    tokenizer = tokenizers.Tokenizer(model)
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    tokenizer.train_from_iterator(TEXT.splitlines(), trainer)
    return tokenizer


def train_byte_level():
    return train_huggingface(
        models.BPE(),
        trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=["<|end|>", "<|start|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
        pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoder=decoders.ByteLevel(),
    )


def train_byte_fallback(normalizer, decoder):
    spelled = [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer = train_huggingface(
        models.BPE(byte_fallback=True, unk_token="<unk>"),
        trainers.BpeTrainer(
            vocab_size=500,
            special_tokens=["<unk>", "<s>"],
            limit_alphabet=60,
            show_progress=False,
        ),
        normalizer=normalizer,
        decoder=decoder,
    )
    spec = json.loads(tokenizer.to_str())
    vocab = spec["model"]["vocab"]
    for piece in spelled:
        vocab.setdefault(piece, len(vocab))
    return tokenizers.Tokenizer.from_str(json.dumps(spec))


def train_metaspace():
    return train_huggingface(
        models.BPE(unk_token="<unk>"),
        trainers.BpeTrainer(
            vocab_size=300, special_tokens=["<unk>", "<s>"], show_progress=False
        ),
        pre_tokenizer=pre_tokenizers.Metaspace(),
        decoder=decoders.Metaspace(),
    )


def train_word_piece():
    return train_huggingface(
        models.WordPiece(unk_token="[UNK]"),
        trainers.WordPieceTrainer(
            vocab_size=300, special_tokens=["[UNK]", "[CLS]"], show_progress=False
        ),
        pre_tokenizer=pre_tokenizers.BertPreTokenizer(),
        decoder=decoders.WordPiece(),
    )


def train_word_end():
    return train_huggingface(
        models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"),
        trainers.BpeTrainer(
            vocab_size=300,
            special_tokens=["<unk>"],
            end_of_word_suffix="</w>",
            show_progress=False,
        ),
        pre_tokenizer=pre_tokenizers.Whitespace(),
        decoder=decoders.BPEDecoder(),
    )


def train_ctc():
    words = ["<pad>", "|", *"abcdefghij", "</s>"]
    tokenizer = tokenizers.Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(words)}, "<pad>")
    )
    tokenizer.decoder = decoders.CTC()
    return tokenizer


def _llama_decoder():
    steps = [
        decoders.Replace("▁", " "),
        decoders.ByteFallback(),
        decoders.Fuse(),
        decoders.Strip(" ", 1, 0),
    ]
    return decoders.Sequence(steps)


def _gemma_decoder():
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(steps)


def _prepend():
    steps = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    return normalizers.Sequence(steps)


HUGGINGFACE = {
    "byte-level": train_byte_level,
    "llama": lambda: train_byte_fallback(_prepend(), _llama_decoder()),
    "gemma": lambda: train_byte_fallback(
        normalizers.Replace(" ", "▁"), _gemma_decoder()
    ),
    "metaspace": train_metaspace,
    "word-piece": train_word_piece,
    "word-end": train_word_end,
    "ctc": train_ctc,
}
SENTENCEPIECE = {
    "sp-gemma": {"add_dummy_prefix": False},
    "sp-llama": {},
    "sp-nfkc": {
        "model_type": "unigram",
        "byte_fallback": False,
        "normalization_rule_name": "nmt_nfkc",
        "remove_extra_whitespaces": True,
    },
    "sp-suffix": {"treat_whitespace_as_suffix": True, "model_type": "unigram"},
}
# Their decoders see neighbours, or the unknown token hides what was written.
LOSSY = {"sp-nfkc", "word-piece", "word-end", "ctc", "metaspace", "sp-suffix"}
KINDS = [*HUGGINGFACE, *SENTENCEPIECE]
_data = {}


def tokenizer_data(kind):
    """(kind for load_tokenizer, file content) of one of KINDS, trained once."""
    if kind not in _data:
        if kind in SENTENCEPIECE:
            data = train_sentencepiece(**SENTENCEPIECE[kind])
            _data[kind] = ("sentencepiece", data)
        else:
            _data[kind] = ("huggingface", HUGGINGFACE[kind]().to_str().encode())
    return _data[kind]
