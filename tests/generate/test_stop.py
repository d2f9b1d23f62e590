"""Where generation stops, and what is held back until that is known."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litert_lm.errors import InvalidArgumentError
from litert_lm.generate.stop import StopSequences, StopStrings, TextStep, TokenStep

X, Y, Z, W, Q = 10, 11, 12, 13, 14


def push_ids(sequences, ids, **options):
    stop = StopSequences(sequences)
    return [stop.push(token_id, **options) for token_id in ids], stop


def push_texts(strings, texts, include=False, **options):
    stop = StopStrings(strings, include)
    return [stop.push(text, **options) for text in texts], stop


def joined(steps, stop):
    """All text, and the match."""
    for at, step in enumerate(steps):
        if step.match is not None:
            return "".join(s.text for s in steps[: at + 1]), step.match
    return "".join(step.text for step in steps) + stop.finish(), None


def test_without_sequences_every_token_passes():
    steps, stop = push_ids([], [X, Y])
    assert steps == [TokenStep((X,), None), TokenStep((Y,), None)]
    assert stop.finish() == ()


def test_a_single_stop_id_matches_at_once_and_is_not_released():
    steps, _ = push_ids([[Z]], [X, Z])
    assert steps == [TokenStep((X,), None), TokenStep((), (Z,))]


def test_a_broken_partial_match_is_released_with_the_breaking_token():
    steps, _ = push_ids([[Y, Z, Q]], [X, Y, Z, W])
    assert [step.released for step in steps] == [(X,), (), (), (Y, Z, W)]


def test_a_short_sequence_fires_inside_a_longer_one():
    steps, _ = push_ids([[X, Y, Z, W], [Z]], [X, Y, Z])
    assert steps[-1] == TokenStep((X, Y), (Z,))


def test_of_two_complete_at_once_the_shorter_fires():
    steps, _ = push_ids([[Y, Z], [Z]], [Y, Z])
    assert steps[-1] == TokenStep((Y,), (Z,))


def test_overlapping_repeats_are_found():
    steps, _ = push_ids([[X, X, Y]], [X, X, X, Y])
    assert [step.released for step in steps] == [(), (), (X,), ()]
    assert steps[-1].match == (X, X, Y)


def test_what_is_withheld_at_the_end_is_given_out():
    _, stop = push_ids([[Y, Z, Q]], [X, Y, Z])
    assert stop.finish() == (Y, Z)
    assert stop.finish() == ()


def test_before_the_minimum_a_complete_sequence_passes():
    steps, stop = push_ids([[Y, Z], [Z]], [Y, Z], may_stop=False)
    assert [step.released for step in steps] == [(), (Y, Z)]
    assert stop.push(Y) == TokenStep((), None)
    assert stop.push(Z) == TokenStep((Y,), (Z,))


def naive_ids(sequences, ids):
    """(released so far, match) after each id."""
    for end in range(1, len(ids) + 1):
        seen = ids[:end]
        complete = [s for s in sequences if seen[-len(s) :] == s]
        if complete:
            match = min(complete, key=len)
            yield seen[: -len(match)], tuple(match)
            return
        starts = [s[:n] for s in sequences for n in range(1, len(s))]
        fitting = [len(start) for start in starts if seen[-len(start) :] == start]
        num_withheld = max(fitting, default=0)
        yield seen[: end - num_withheld], None


SMALL_IDS = st.lists(st.integers(0, 2), min_size=1, max_size=5)


@settings(max_examples=300, deadline=None)
@given(st.lists(SMALL_IDS, max_size=5), st.lists(st.integers(0, 2), max_size=20))
def test_sequences_agree_with_a_plain_search(sequences, ids):
    stop = StopSequences(sequences)
    released = []
    for token_id, expected in zip(ids, naive_ids(sequences, ids), strict=False):
        step = stop.push(token_id)
        released += step.released
        assert (released, step.match) == expected


@settings(max_examples=200, deadline=None)
@given(st.lists(SMALL_IDS, max_size=5), st.lists(st.integers(0, 2), max_size=20))
def test_no_token_is_lost_without_a_match(sequences, ids):
    steps, stop = push_ids(sequences, ids, may_stop=False)
    released = [token_id for step in steps for token_id in step.released]
    assert [*released, *stop.finish()] == ids


@pytest.mark.parametrize("sequences", [[[]], [["a"]], [5], [[1.5]]])
def test_what_is_no_sequence_of_ids_is_an_invalid_argument(sequences):
    with pytest.raises(InvalidArgumentError, match="stop sequence"):
        StopSequences(sequences)


def test_without_strings_every_text_passes():
    steps, stop = push_texts([], ["a", "", "b"])
    assert [step.text for step in steps] == ["a", "", "b"]
    assert stop.finish() == ""


def test_a_string_across_pieces_is_cut_off():
    steps, _ = push_texts(["stop"], ["hello s", "t", "op world"])
    assert steps == [
        TextStep("hello ", None),
        TextStep("", None),
        TextStep("", "stop"),
    ]


def test_an_included_string_stays_and_nothing_is_withheld():
    steps, _ = push_texts(["stop"], ["hello s", "t", "op world"], include=True)
    assert steps == [
        TextStep("hello s", None),
        TextStep("t", None),
        TextStep("op", "stop"),
    ]


def test_only_a_possible_start_is_withheld():
    steps, _ = push_texts(["<end of answer>"], ["a long text ", "with <", "b>"])
    assert [step.text for step in steps] == ["a long text ", "with ", "<b>"]


def test_a_withheld_end_is_given_out():
    steps, stop = push_texts(["aab"], ["aaaa", "aa"])
    assert joined(steps, stop) == ("aaaaaa", None)


def test_the_first_to_be_complete_wins_over_the_order():
    steps, _ = push_texts(["aaaa", "aa"], ["a", "a"])
    assert steps[-1] == TextStep("", "aa")


def test_of_several_in_one_piece_the_first_listed_wins():
    steps, _ = push_texts(["cd", "ab"], ["xabcd"])
    assert steps == [TextStep("xab", "cd")]


def test_before_the_minimum_a_complete_string_passes():
    stop = StopStrings(["ab"])
    assert stop.push("ab", may_stop=False) == TextStep("ab", None)
    assert stop.push("x") == TextStep("x", None)
    assert stop.push("a", may_stop=False) == TextStep("", None)
    assert stop.push("b") == TextStep("", "ab")


def naive_text(strings, texts, include):
    """All text and the match, by searching the whole text after each piece."""
    seen = ""
    for text in texts:
        old, seen = len(seen), seen + text
        for string in strings:
            ends = range(old + 1, len(seen) + 1)
            found = [end for end in ends if seen[:end].endswith(string)]
            if found:
                return seen[: found[0] - len(string) * (not include)], string
    return seen, None


TEXTS = st.lists(st.text("ab", max_size=6), max_size=8)
STRINGS = st.lists(st.text("ab", min_size=1, max_size=5), max_size=4)


@settings(max_examples=400, deadline=None)
@given(STRINGS, TEXTS, st.booleans())
def test_strings_agree_with_a_plain_search(strings, texts, include):
    steps, stop = push_texts(strings, texts, include)
    assert joined(steps, stop) == naive_text(strings, texts, include)


@settings(max_examples=300, deadline=None)
@given(STRINGS, TEXTS)
def test_withheld_text_is_the_longest_start_of_a_string(strings, texts):
    steps, stop = push_texts(strings, texts, may_stop=False)
    starts = [s[:n] for s in strings for n in range(1, len(s))]
    seen = "".join(texts)
    fitting = [len(start) for start in starts if seen.endswith(start)]
    withheld = stop.finish()
    assert len(withheld) == max(fitting, default=0)
    assert "".join(step.text for step in steps) + withheld == seen


@pytest.mark.parametrize("strings", ["stop", [""], ["a", ""], [3], [b"a"]])
def test_what_is_no_list_of_strings_is_an_invalid_argument(strings):
    with pytest.raises(InvalidArgumentError, match=r"[Ss]top string"):
        StopStrings(strings)
