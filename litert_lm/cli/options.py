"""Options that several verbs have."""

from __future__ import annotations

import argparse

__all__ = ["add_sampling_options", "add_threads_option"]


def add_sampling_options(parser: argparse.ArgumentParser) -> None:
    """How long an answer gets, and how its tokens are drawn."""
    parser.add_argument(
        "--max-new-tokens",
        type=int,
        metavar="N",
        help="end the answer after N tokens (default: go on to the stop token)",
    )
    parser.add_argument(
        "--temperature", type=float, metavar="T", help="0 is greedy (default: model's)"
    )
    parser.add_argument(
        "--top-k", type=int, metavar="K", help="draw from the K likeliest tokens"
    )
    parser.add_argument(
        "--top-p", type=float, metavar="P", help="draw from this share of likelihood"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="make drawing repeatable")


def add_threads_option(parser: argparse.ArgumentParser) -> None:
    """How many threads compute."""
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads")
