"""Chat templates render as their authors, who test with transformers, see them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from litert_lm.bundle.open import open_bundle
from litert_lm.chat.template import render
from litert_lm.errors import InvalidArgumentError, ModelFileError

USER = [{"role": "user", "content": "Hi <b>&"}]
LOOP = "{% for m in messages %}"
END = "{% endfor %}"


def test_the_official_bundles_template_gives_the_reference_prompts(
    shared_dir: Path,
) -> None:
    reference = json.loads((shared_dir / "bundles/reference.json").read_text())
    with open_bundle(shared_dir / "bundles/smollm2-135m-int8.litertlm") as bundle:
        template = bundle.llm_metadata.jinja_prompt_template
    for item in reference["items"]:
        assert render(template, item["messages"]) == item["prompt_text"]


def test_a_template_that_concatenates_gets_a_string() -> None:
    chatml = LOOP + "{{ '<' + m['role'] + '>' + m['content'] + '|' }}" + END
    assert render(chatml, USER) == "<user>Hi <b>&|"


def test_a_template_that_iterates_gets_parts() -> None:
    parts = LOOP + "{% for p in m.content %}{{ p.text }}{% endfor %}" + END
    assert render(parts, USER) == "Hi <b>&"


def test_parts_become_a_string_where_that_is_taken() -> None:
    texts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    chatml = LOOP + "{{ m.content + '|' }}" + END
    assert render(chatml, [{"role": "user", "content": texts}]) == "ab|"


def test_other_parts_are_left_alone() -> None:
    image = [{"type": "image"}, {"type": "text", "text": "b"}]
    template = LOOP + "{{ m.content | length }}" + END
    assert render(template, [{"role": "user", "content": image}]) == "2"


def test_blocks_leave_no_lines_behind() -> None:
    template = "{% if true %}\n  {% set x = 1 %}\na\n{% endif %}\nb"
    assert render(template, USER) == "a\nb"


@pytest.mark.parametrize(
    ("template", "prompt"),
    [
        ("{% generation %}x{% endgeneration %}", "x"),
        (
            "{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}"
            "{% endfor %}",
            "01",
        ),
        ("{{ {'a': '<é>'} | tojson }}", '{"a": "<é>"}'),
        ("{{ [1] | tojson(indent=2) }}", "[\n  1\n]"),
        ("{{ messages[0].get('x', 'none') }}", "none"),
        ("{{ messages[0].keys() | list }}", "['role', 'content']"),
        ("{{ 'a,b'.split(',')[-1].upper() }}", "B"),
        ("{{ 'x' ~ 1 ~ none }}", "x1None"),
        ("{{ '%s-%d' % ('a', 3) }}|{{ '{:.1f}'.format(1.25) }}", "a-3|1.2"),
        ("{{ [3, 1, 2] | sort | join('-') }}", "1-2-3"),
        ("{{ messages | map(attribute='role') | list | length }}", "1"),
        (
            "{{ messages | selectattr('role', 'equalto', 'user') | first is mapping }}",
            "True",
        ),
        (
            "{% set ns = namespace(n=0) %}{% for i in [1,2] %}"
            "{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
            "3",
        ),
        ("{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m('a') }}", "[a]"),
        (
            "{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{{ loop.last }}"
            "{% endfor %}",
            "a1True",
        ),
        ("{% set t %}a{{ 1 }}{% endset %}{{ t }}", "a1"),
        ("{{ messages[::-1] | length }}{{ missing }}", "1"),
        ("{% if tools is defined %}t{% endif %}{{ bos_token }}", ""),
        ("{% if add_generation_prompt %}g{% endif %}", "g"),
        ("{{ '<' | e ~ '<' }}", "&lt;<"),
        ("{{ '  a ' | trim }}{{ 'ab' | replace('a', 'c') }}", "acb"),
        ("{{ 'a\nb' | indent(2) }}", "a\n  b"),
        (
            "{% for a in [[1, [2]]] recursive %}"
            "{{ a if a is number else loop(a) }}{% endfor %}",
            "12",
        ),
    ],
)
def test_the_dialect(template: str, prompt: str) -> None:
    assert render(template, USER) == prompt


def test_context_reaches_the_template() -> None:
    assert render("{{ enable_thinking }}", USER, enable_thinking=False) == "False"


def test_strftime_now_knows_the_year() -> None:
    assert render("{{ strftime_now('%Y') }}", USER).startswith("20")


def test_raise_exception_is_the_callers_fault() -> None:
    template = "{{ raise_exception('roles must alternate') }}"
    with pytest.raises(InvalidArgumentError, match="roles must alternate"):
        render(template, USER)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{% if %}", r"broken in line 1"),
        ("\n\n{{ x y }}", r"broken in line 3"),
        ("{{ x.y.z }}", r"'x' is undefined"),
        ("{{ 'a' + 1 }}", "failed"),
        ("{% include 'etc' %}", "failed"),
        ("{{ 1 // 0 }}", "zero"),
        ("{{ ''.__class__.x }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{{ messages | nofilter }}", "nofilter"),
    ],
)
def test_a_broken_template_says_what_is_wrong(template: str, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        render(template, USER)
