"""A hostile template ends with an error, soon and in little memory."""

from __future__ import annotations

import resource

import pytest

from litert_lm.chat.template import render
from litert_lm.errors import ModelFileError

USER = [{"role": "user", "content": "Hi"}]
FOREVER = "{% for a in range(99999) %}"


def doubling(start: str, step: str, end: str = "") -> str:
    """Apply `step` 64 times to `ns.x`."""
    return (
        "{% set ns = namespace(x=" + start + ") %}{% for i in range(64) %}"
        "{% set ns.x = " + step + " %}{% endfor %}" + end
    )


HOSTILE = {
    "nested loops": FOREVER * 3 + "x" + "{% endfor %}" * 3,
    "loops of printing": FOREVER + FOREVER + "{{ a }}" + "{% endfor %}" * 2,
    "range": "{{ range(10 ** 12) | list }}",
    "string times number": "{{ 'a' * 10 ** 9 }}",
    "list times number": "{{ [0] * 10 ** 9 }}",
    "power": "{{ 10 ** 1000000000 }}",
    "squaring": doubling("10", "ns.x * ns.x"),
    "plus": doubling("'aa'", "ns.x + ns.x"),
    "tilde": doubling("'aa'", "ns.x ~ ns.x"),
    "replace": doubling("'aa'", "ns.x.replace('a', 'aa')"),
    "replace filter": doubling("'aa'", "ns.x | replace('a', 'aa')"),
    "join": doubling("'aa'", "[ns.x, ns.x] | join"),
    "join method": doubling("'aa'", "''.join([ns.x, ns.x])"),
    "format": doubling("'aa'", "'%s%s' % (ns.x, ns.x)"),
    "format filter": doubling("'aa'", "'%s%s' | format(ns.x, ns.x)"),
    "format method": doubling("'aa'", "'{0}{0}'.format(ns.x)"),
    "tojson": doubling("'a'", "(ns.x | tojson) ~ (ns.x | tojson)"),
    "list of lists printed": doubling("[1]", "[ns.x, ns.x]", "{{ ns.x }}"),
    "list of lists compared": doubling("[1]", "[ns.x, ns.x]", "{{ ns.x == [1] }}"),
    "dict of dicts": doubling("1", "{'a': ns.x, 'b': ns.x}", "{{ ns.x }}"),
    "call of dict": doubling("1", "dict(a=ns.x, b=ns.x)", "{{ ns.x }}"),
    "namespace printed": doubling("1", "[ns.x, ns.x]", "{{ ns }}"),
    "lists added": doubling("[1]", "ns.x + ns.x"),
    "block set": (
        "{% set x = 'aaaa' %}"
        + "{% set x %}{{ x }}{{ x }}{% endset %}" * 40
        + "{{ x }}"
    ),
    "macro recursion": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "macro tree": (
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}"
        "{% endmacro %}{{ m(90) }}"
    ),
    "loop tree": (
        "{% for a in [1, 1] recursive %}{% if loop.depth < 60 %}{{ loop([1, 1]) }}"
        "{% endif %}{% endfor %}"
    ),
    "wide printf": "{{ '%1000000000d' % 1 }}",
    "wide printf by argument": "{{ '%*d' % (1000000000, 1) }}",
    "wide format": "{{ '{:>1000000000}'.format(1) }}",
    "wide format by argument": "{{ '{:>{}}'.format(1, 1000000000) }}",
    "wide indent": "{{ 'a\n' | indent(10 ** 9) }}",
    "wide JSON": "{{ [1] | tojson(indent=1000000000) }}",
    "center": "{{ 'a'.center(1000000000) }}",
    "zfill": "{{ 'a'.zfill(1000000000) }}",
    "to_bytes": "{{ (1).to_bytes(1000000000, 'big') }}",
    "rounding": "{{ 1.5 | round(100000000, 'ceil') }}",
    "lipsum": "{{ lipsum(n=1000000) }}",
    "strftime": "{{ strftime_now('%1000000000d') }}",
    "sum of lists": "{{ messages | sum(start=[]) }}",
    "deep source": "{{ " + "[" * 5000 + "]" * 5000 + " }}",
    "many blocks": "{% for a in [1] %}" * 60 + "{% endfor %}" * 60,
    "long source": "a" * 600_000,
    "long number": "{{ " + "9" * 100_000 + " }}",
    "autoescape": "{% autoescape true %}{{ '<' }}{% endautoescape %}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_is_stopped(name: str) -> None:
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelFileError):
        render(HOSTILE[name], USER)
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
    assert grown_kb < 300_000
