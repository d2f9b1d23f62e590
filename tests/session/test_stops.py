"""What ends an answer, and what its text shows of that."""

from __future__ import annotations

import pytest

from litert_lm.generate.response import FinishReason

END = "<eot>"
STOPS = {"stop_tokens": [{"token_str": END}, {"token_str": "yz"}]}


def finish(response):
    return response.outputs[0].finish_info


def test_eos_and_further_stop_tokens_are_told_apart(speaker):
    metadata = {"stop_tokens": [{"token_str": END}, {"token_str": "<eos>"}]}
    first = finish(speaker(["x", END], metadata).generate(">"))
    assert (first.eos_token_id, first.stop_token_id) == (3, None)
    second = finish(speaker(["x", "<eos>"], metadata).generate(">"))
    assert (second.eos_token_id, second.stop_token_id) == (None, 2)


def test_stop_token_ids_hide_their_text_and_keep_their_token(speaker):
    response = speaker("xyz").generate(">", stop_token_ids=[131])
    assert response.text == "x"
    assert response.outputs[0].token_ids == (130, 131)
    assert finish(response).stop_token_id == 131
    assert finish(response).num_output_tokens == 2


def test_an_included_stop_token_shows(speaker):
    response = speaker("xyz").generate(
        ">", stop_token_ids=[131], include_stop_strings=True
    )
    assert response.text == "xy"


def test_a_stop_string_over_several_tokens(speaker):
    response = speaker("hello stop world").generate(">", stop_strings=["stop"])
    assert response.text == "hello "
    assert finish(response).finish_reason is FinishReason.STOP
    assert finish(response).stop_string == "stop"
    assert finish(response).num_output_tokens == 10


def test_an_included_stop_string_shows(speaker):
    response = speaker("hello stop world").generate(
        ">", stop_strings=["stop"], include_stop_strings=True
    )
    assert response.text == "hello stop"


def test_a_stop_string_inside_a_token(echoing):
    response = echoing().create_session().generate("ab", stop_strings=["os][U"])
    assert response.text == "[b"
    assert response.outputs[0].num_tokens == 2


def test_first_complete_stop_string_wins(speaker):
    response = speaker("aaaa").generate(">", stop_strings=["aaaa", "aa"])
    assert finish(response).stop_string == "aa"
    assert response.outputs[0].num_tokens == 2


def test_the_prompt_is_no_part_of_a_stop_string(speaker):
    response = speaker(["xy", END]).generate(">", stop_strings=[">x"])
    assert response.text == "xy"


def test_held_back_text_comes_when_the_stop_string_breaks(speaker):
    session = speaker("aaaaaa")
    chunks = list(session.generate_stream(">", stop_strings=["aab"], max_new_tokens=6))
    texts = [chunk.text for chunk in chunks if chunk.outputs]
    assert texts == ["", "", "a", "a", "a", "aaa"]
    assert [output.num_tokens for c in chunks for output in c.outputs] == [1] * 6
    assert chunks[-1].finish_reason is FinishReason.LENGTH


def test_ignore_eos_switches_off_every_stop_of_the_bundle(speaker):
    session = speaker(["xyz", END, "w"], STOPS)
    response = session.generate(">", ignore_eos=True, max_new_tokens=6)
    assert response.text == "xyzww"
    assert response.outputs[0].token_ids == (130, 131, 132, 3, 129, 129)
    assert response.finish_reason is FinishReason.LENGTH


def test_ignore_eos_leaves_the_requests_own_stops(speaker):
    session = speaker(["xyz", END, "w"], STOPS)
    response = session.generate(">", ignore_eos=True, stop_strings=["z"])
    assert response.text == "xy"
    session = speaker(["xyz", END, "w"], STOPS)
    response = session.generate(">", ignore_eos=True, stop_token_ids=[3])
    assert (response.text, finish(response).stop_token_id) == ("xyz", 3)


def test_a_stop_sequence_of_several_ids(speaker):
    response = speaker(["xyz", END], STOPS).generate(">")
    assert response.text == "x"
    assert response.outputs[0].token_ids == (130, 131, 132)
    assert finish(response).finish_reason is FinishReason.STOP


def test_a_stop_sequence_that_is_cut_by_length_is_output(speaker):
    response = speaker("xyw", STOPS).generate(">", max_new_tokens=2)
    assert response.text == "xy"
    assert response.finish_reason is FinishReason.LENGTH


def test_no_stop_before_the_minimum(speaker, make_echo_bundle, open_engine):
    path = make_echo_bundle(logits={END: 1.0, "a": 0.5})
    session = open_engine(path).create_session()
    response = session.generate("x", min_new_tokens=4)
    assert response.text == "aaaa"
    assert finish(response).eos_token_id == 3


def test_stop_strings_wait_for_the_minimum_too(speaker):
    response = speaker("abab").generate(">", stop_strings=["b"], min_new_tokens=2)
    assert response.text == "aba"
    assert finish(response).num_output_tokens == 4


def test_a_stop_on_the_last_token_is_a_stop(speaker):
    response = speaker(["xy", END]).generate(">", max_new_tokens=3)
    assert response.finish_reason is FinishReason.STOP


@pytest.mark.parametrize("text", ["é", "€", "😀", "aé😀b", "日本語"])
def test_characters_of_several_bytes_come_whole(speaker, text):
    chunks = speaker([text, END]).generate_stream(">")
    pieces = [chunk.text for chunk in chunks]
    assert "".join(pieces) == text
    assert all("\ufffd" not in piece for piece in pieces)


def test_a_stop_string_of_several_bytes(speaker):
    response = speaker("a日本語b").generate(">", stop_strings=["本"])
    assert response.text == "a日"


def test_a_stop_ends_the_turn_and_stays_in_the_context(speaker):
    session = speaker(["xyz", END], STOPS)
    session.generate(">")
    assert session.token_ids == (1, 72, 130, 131, 132)
    session.generate(">")
    assert session.token_ids[5:] == (72, 130, 131, 132)


def test_a_stop_string_leaves_its_tokens_in_the_context(speaker):
    session = speaker("xyz")
    session.generate(">", stop_strings=["y"])
    assert session.token_ids == (1, 72, 130, 131)
