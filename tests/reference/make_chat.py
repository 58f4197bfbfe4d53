#!/usr/bin/env python3
# Makes chat/*.txt: what transformers' chat templates give for conversations and snippets.
# SPDX-License-Identifier: Apache-2.0
# Needs transformers and jinja2. Run in this folder; the files are committed.
import datetime
import json
import pathlib

import tokenizers
import transformers
from transformers.utils import chat_template_utils as utils

FOLDER = pathlib.Path(__file__).parent / "chat"
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}


class FixedClock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2026, 1, 31)


utils.datetime = FixedClock
TOOLS = [{"type": "function", "function": {
    "name": "weather", "description": "Weather of a \"place\" <now> & 'then' é",
    "parameters": {"type": "object", "required": ["place"], "properties": {
        "place": {"type": "string"}, "days": {"type": "integer"},
        "unit": {"type": "string", "enum": ["C", "F"]},
        "more": {"type": "object", "properties": {"deep": {"type": "array"}}}}}}}]
CALL = {"role": "assistant", "tool_calls": [{"id": "abcdefghi", "type": "function", "function": {
    "name": "weather", "arguments": {"place": "Köln", "days": 2, "x": [1.5, None, True, "a\n\"b\""]}}}]}


def turns(*contents, system=None):
    roles = ["user", "assistant"]
    all_turns = [{"role": "system", "content": system}] if system is not None else []
    return all_turns + [{"role": roles[i % 2], "content": c} for i, c in enumerate(contents)]


CONVERSATIONS = [
    {"messages": turns("Hi")},
    {"messages": turns("Hi", "Hello!", system="You are kind.")},
    {"messages": turns("a", "b", "c", "d", "e")},
    {"messages": turns("  spaces \n around\t", "\n\nlines\n\n", " more ", "   ")},
    {"messages": turns("", "", system="")},
    {"messages": turns("Grüße 😀 \u200d 你好", "naïve \u00a0 x\u2028y", system="é")},
    {"messages": turns("What is 1+1?", "<think>\nIt is two.\n</think>\n\n2", "And 2+2?", "<think>4</think>4")},
    {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "r", "reasoning_content": "why\n"}]},
    {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "thinking": "hm", "content": "r"}, {"role": "user", "content": "s"}]},
    {"messages": turns("Weather?") + [CALL, {"role": "tool", "content": "{\"t\": 3}"}, {"role": "assistant", "content": "3 degrees"}], "tools": TOOLS},
    {"messages": turns("Weather?", system="Tools!") + [CALL, {"role": "tool", "content": {"t": [3, 4.0]}}], "tools": TOOLS},
    {"messages": turns("x") + [CALL, {"role": "tool", "content": "one"}, {"role": "tool", "content": "two"}, {"role": "assistant", "content": "ok"}]},
    {"messages": [{"role": "assistant", "content": "I begin"}, {"role": "user", "content": "fine"}]},
    {"messages": [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": " part "}, {"type": "image"}, {"type": "text", "text": "b"}]}]},
    {"messages": [{"role": "critic", "content": "odd role"}]},
    {"messages": [{"role": "user", "content": None}, {"role": "assistant", "content": "x"}]},
    {"messages": turns("stop", "please stop now", "again", "no")},
    {"messages": turns("{{ bos_token }} {% raw %}", "<|im_end|><s>[INST]", system="{# no #}")},
    {"messages": turns("think off"), "enable_thinking": False},
    {"messages": turns("date"), "date_string": "1 Jan 2020"},
    {"messages": [{"role": "system", "content": "only system"}]},
    {"messages": turns("a", "b", system="s1") + [{"role": "system", "content": "s2"}]},
    {"messages": turns("\r\nwin\r\n", "tab\tvt\x0bff\x0c.", "<tool_response>x</tool_response>", "y")},
    {"messages": turns("quote \" ' \\ /", "percent % {curly} $x"), "tools": []},
]

# Templates of one construct each, or a few; `messages` are those of CONVERSATIONS[1].
SNIPPETS = r"""
{{ 1 + 2 * 3 - 4 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7 / 2 }} {{ 6 / 2 }}
{{ 1.0 }} {{ 0.1 + 0.2 }} {{ 1e16 }} {{ 1e15 }} {{ 0.0001 }} {{ 0.00001 }} {{ 123456789.125 }} {{ -0.5 }} {{ 1_000 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 100000.0 }}
{{ none }} {{ true }} {{ False }} {{ None }} {{ [1, 'a', none, true, 1.5] }} {{ (1,) }} {{ (1, 2) }} {{ {'a': 1, "b": [2]} }} {{ () }} {{ [] }} {{ {} }}
{{ ['it\'s', "a\"b", 'both \' "', 'tab\t', 'nl\n', 'é', '\u200b', '\\', '\x7f'] }}
{{ missing }}|{{ missing is defined }}|{{ missing | default('d') }}|{{ '' | default('d') }}|{{ '' | default('d', true) }}|{{ missing is none }}
{{ missing.a }}
{{ missing + 1 }}
{{ missing ~ 'x' }}{{ missing | length }}{% for x in missing %}no{% else %}none{% endfor %}
{{ messages[5] }}|{{ messages[-1].role }}|{{ messages.0.content }}|{{ messages[0].nothing }}|{{ messages[0]['role'][0] }}
{{ messages[0].nothing.more }}
{{ messages[0].items() | list | length }} {% for k, v in messages[0].items() %}{{ k }}={{ v }};{% endfor %} {{ messages[0].keys() | list }} {{ messages[0].values() | list }} {{ messages[0].get('x', 5) }} {{ messages[0].get('x') }}
{{ 'abc'[1] }} {{ 'abc'[-1] }} {{ 'abc'[::-1] }} {{ 'héllo'[1:3] }} {{ [1,2,3,4][1:] }} {{ [1,2,3,4][:-1] }} {{ [1,2,3,4][::2] }} {{ [1,2,3,4][-2:] }} {{ 'abc'[10:] }} {{ [1,2,3][::-2] }} {{ (1,2,3)[1:] }} {{ [1,2,3][5:0:-1] }}
{{ 'a' in 'abc' }} {{ 'x' not in ['a'] }} {{ 'role' in messages[0] }} {{ 1 in (1, 2) }} {{ 1 in [true] }}
{{ 1 in 'abc' }}
{{ 1 == 1.0 }} {{ 'a' == 1 }} {{ [1] == [1.0] }} {{ {'a': 1} == {'a': 1.0} }} {{ none == none }} {{ (1,) == [1] }} {{ 1 < 2 < 3 }} {{ 1 < 2 > 5 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ true == 1 }} {{ missing == missing2 }}
{{ 1 < 'a' }}
{{ none < 1 }}
{{ 1 and 0 or 'x' }} {{ not 1 == 2 }} {{ not true and false }} {{ '' or none }} {{ 0 or '' }} {{ 'a' and 'b' }}
{{ 'a' if 1 else 'b' }} {{ 'a' if 0 else 'b' }} [{{ 'a' if 0 }}] {{ 'a' if 0 else 'b' if 0 else 'c' }}
{{ 'a' 'b' "c" }} {{ 'x' ~ 1 ~ none ~ true ~ 1.50 ~ [1] }} {{ 'ab' * 3 }} {{ 2 * 'x' }} {{ [1] * 2 }} {{ [1] + [2] }} {{ (1,) + (2,) }} {{ '' ~ {} }}
{{ 'a' + 1 }}
{{ [1] + (2,) }}
{{ 'abc' | upper }} {{ 'ABC' | lower }} {{ 'hello world' | title }} {{ 'hELLO' | capitalize }} {{ "they're o'clock" | title }} {{ 'ÀÉ' | lower }} {{ 'ß' | lower }}
{{ '  x ' | trim }}| {{ 'xxaxx' | trim('x') }} {{ ' a b '.strip() }} {{ 'xya'.lstrip('yx') }} {{ 'abb'.rstrip('b') }} {{ '\u2003x\x1c'.strip() }}
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b c '.split(none, 1) }} {{ ' a b c '.rsplit(none, 1) }} {{ ''.split(',') }} {{ ''.split() }} {{ 'aXXb'.split('XX')[-1] }}
{{ 'a'.split('') }}
{{ 'a\nb\r\nc\n'.splitlines() }} {{ 'a\n\nb'.splitlines(true) }} {{ ''.splitlines() }}
{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'abcabc'.find('c') }} {{ 'é-c'.find('c') }} {{ 'abcabc'.rfind('c') }} {{ 'abc'.find('x') }} {{ 'aaa'.count('a') }} {{ 'aaa'.count('aa') }} {{ 'ab'.count('') }}
{{ 'aaa'.replace('a', 'b') }} {{ 'aaa'.replace('a', 'b', 2) }} {{ 'ab'.replace('', '-') }} {{ 'aaa' | replace('a', 'bb', 1) }} {{ 'x' | replace('y', 'z') }} {{ 5 | replace('5', 'five') }}
{{ ','.join(['a', 'b']) }} {{ ['a', 1, none] | join('-') }} {{ [1, 2] | join }} {{ messages | join(', ', attribute='role') }} {{ 'abc' | join('.') }}
{{ ','.join([1]) }}
{{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.py'.removesuffix('.py') }} {{ 'abc'.upper() }} {{ 'aBc'.lower() }} {{ 'ab cd'.title() }} {{ 'ab'.capitalize() }} {{ '12'.isdigit() }} {{ 'ab1'.isalnum() }} {{ 'ab'.isalpha() }} {{ ' '.isspace() }} {{ 'AB1'.isupper() }} {{ 'ab'.islower() }} {{ ''.isdigit() }} {{ '12'.isupper() }}
{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list }} {{ messages | rejectattr('role', 'eq', 'user') | list | length }} {{ messages | selectattr('nothing') | list }} {{ messages | selectattr('role', 'in', ['system', 'user']) | map(attribute='role') | join(' ') }}
{{ [1, 2, 3, 4] | select('even') | list }} {{ [1, 2, 3] | reject('odd') | list }} {{ [0, 1, '', 'a'] | select | list }} {{ ['a', 'b'] | map('upper') | list }} {{ [' a '] | map('trim') | join }} {{ [3, 5] | select('gt', 3) | list }} {{ ['ab', 'c'] | map('length') | list }}
{{ [{'a': {'b': 1}}] | map(attribute='a.b') | list }} {{ [[5, 6]] | map(attribute=1) | list }} {{ [{}] | map(attribute='a', default='z') | list }}
{{ [1, 2, 3] | first }} {{ [1, 2, 3] | last }} {{ 'abc' | first }} {{ [] | first }}| {{ 'abc' | reverse }} {{ [1, 2] | reverse | list }} {{ 'abc' | list }} {{ {'a': 1} | list }} {{ 'héé' | length }} {{ {'a': 1} | length }}
{{ [3, 1, 2] | sort }} {{ ['b', 'A', 'c'] | sort }} {{ ['b', 'A'] | sort(case_sensitive=true) }} {{ [1, 3, 2] | sort(reverse=true) }} {{ messages | sort(attribute='content') | map(attribute='content') | list }} {{ {'b': 1, 'A': 2} | dictsort }} {{ {'b': 1, 'a': 2} | dictsort(false, 'value') }}
{{ [1, 'a'] | sort }}
{{ [1, 2, 1, 'a', 'A'] | unique | list }} {{ [1, 5, 3] | max }} {{ ['b', 'A'] | min }} {{ [1, 2, 3] | sum }} {{ [1.5, 2] | sum }} {{ [{'a': 2}, {'a': 3}] | sum(attribute='a') }} {{ [] | sum }} {{ -3 | abs }} {{ 2.6 | round }} {{ 2.5 | round }} {{ 2.1 | round(0, 'ceil') }} {{ 2.9 | int }} {{ '12' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ '1.5' | float }} {{ ' 3 ' | int }} {{ true | int }}
{{ {'a': [1, 2.0, none, true, 'é"\n<&>'], 'b': {}} | tojson }} {{ 'x' | tojson }} {{ 1 | tojson }} {{ [] | tojson }} {{ none | tojson }} {{ '\x07\x7f\u2028😀' | tojson }}
{{ {'a': [1, {'b': 2}], 'c': [], 'd': {}} | tojson(indent=2) }}
{{ {'b': 'é😀', 'a': 1} | tojson(ensure_ascii=true, sort_keys=true, separators=(',', ':')) }} {{ [1, 2] | tojson(indent=0) }} {{ [1] | tojson(indent='\t') }}
{{ missing | tojson }}
{{ {'a': 1, 'b': 2} | items | list }} {{ missing | items | list }} {% for k, v in {'a': 1} | items %}{{ k }}{{ v }}{% endfor %}
{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\n\nb' | indent(2, blank=true) }}|{{ 'a\nb' | indent('> ') }}|{{ 'a\n' | indent(first=true) }}
{{ 1 is number }} {{ 'a' is string }} {{ none is none }} {{ [] is sequence }} {{ {} is mapping }} {{ {} is iterable }} {{ 1 is iterable }} {{ 1 is integer }} {{ 1.0 is float }} {{ true is boolean }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ true is integer }} {{ true is number }} {{ 4 is even }} {{ 3 is odd }} {{ 6 is divisibleby 3 }} {{ 6 is divisibleby(4) }} {{ 'a' is in 'abc' }} {{ 1 is sameas 1 }} {{ 1 is not none }} {{ 'a' is not string }} {{ 1 is eq 1 }} {{ 2 is gt 1 }} {{ 1 is ne 1 }} {{ raise_exception is callable }} {{ 'abc' is lower }} {{ 'ABC' is upper }} {{ 'x' is sequence }} {{ missing is iterable }} {{ missing is string or 1 is number and not none is defined }}
{% for i in range(3) %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('x', 'y') }};{% endfor %}
{% for i in [1, 2, 3, 4] if i is even %}{{ i }}{{ loop.index }}/{{ loop.length }} {% else %}none{% endfor %}{% for i in [] %}{% else %}empty{% endfor %}{% for i in [1] if i > 5 %}{% else %}none{% endfor %}
{% for a, b in [[1, 2], (3, 4), 'xy'] %}{{ a }}-{{ b }} {% endfor %}{% for (a, b) in [(1, 2)] %}{{ a }}{{ b }}{% endfor %}
{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}
{% for i in range(2) %}{% for j in range(2) %}{{ loop.depth }}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}
{% for i in [1, 2, 3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}{% for i in [1, 2, 3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}
{% set ns = namespace(a=1) %}{% for i in [1, 2] %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{% set ns.b = 'x' %}{{ ns.b }}{% set ns2 = namespace({'k': 1}, l=2) %}{{ ns2.k }}{{ ns2['l'] }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set t = 1, 2 %}{{ t }}{% set c %}block {{ a }}{% endset %}{{ c }}{% set d | upper | trim %} up {% endset %}{{ d }}
{% set messages[0] = 1 %}
{% set x.y = 1 %}
{% macro f(a, b=2, c='z') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, 3) }} {{ f(a=5, c=6) }} {{ f() }} {{ f(1, c=none) | length }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(b=2) }}
{% macro fact(n) %}{% if n <= 1 %}1{% else %}{{ n * (fact(n - 1) | int) }}{% endif %}{% endmacro %}{{ fact(10) }}
{% set x = 1 %}{% macro f() %}{{ x }}{% set x = 5 %}{% endmacro %}{{ f() }}{{ x }}{% set x = 2 %}{{ f() }}
{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a }}
{%- raw %} {{ not }} {% this %} {# kept #} {% endraw -%} x
a {# gone #} b{#- gone -#} c
  {% if true %}
  yes
  {% endif %}
end
a
  {%- if true -%}
  b
  {%- endif +%}
c
a {%+ if true %} b {%+ endif %} c
  {%+ if true %}
 kept
{% endif %}
{{- 'x' -}}   y   {{- ' z ' }}
{% if false %}a{% elif 1 %}b{% else %}c{% endif %}{% if '' %}a{% elif none %}b{% else %}c{% endif %}
{{ dict(a=1, b='x') }} {{ range(2, 8, 3) | list }} {{ range(3) | list }} {{ range(3, 0, -1) | list }}
{{ strftime_now('%d %B %Y, %A %H:%M') }} {{ strftime_now('%Y-%m-%d') }}
{{ raise_exception('no') }}
{{ unknown() }}
{{ 'x'.nothing() }}
{{ 1.5.x }}{{ 'they re (o clock) [x]-y' | title }}{{ 'it\'s' | title }}
{{ 1 | nofilter }}
{{ 1 is notest }}
{% nothing %}
{{ 'open }}
{{ (1 }}
{% if true %}
{% for x in y %}{% endif %}
{{ 1 // 0 }}
{{ 'a' | int | string ~ 'b' | upper }} {{ -1 | abs }} {{ (1, 2) | length + 1 }} {{ 'a' ~ 'b' | upper }} {{ not 'a' | upper == 'A' }} {{ 1 + 2 | string | length }}
{{ {'a': 1}.a }} {{ {'items': 1}['items'] }} {{ {'a': {'b': [1, {'c': 2}]}}.a.b[1].c }} {{ [1, 2][0] }} {{ 'abc'[0:2][1] }} {{ {'x y': 1}['x y'] }} {{ {'a': 1}['b'] | default('none') }}
{{ '\x41\u00e9\n\t\\n \q' }}{{ "a'b" }}{{ 'a"b' }}
{{ [1, [2, [3]]] | string }} {{ 'x' | string }} {{ none | string }} {{ [none] | join(',') }} {{ 5 | list }}
{{ messages | map('attr', 'role') | list }} {{ messages | length }} {{ messages | map(attribute='role') | unique | list }}
{{ [1,2,3].index(2) }} {{ [1,1].count(1) }} {{ (1,2).index(1) }}
{{ 'a' ~ ('b' if missing else 'c') ~ 'd' }} {{ ('a', 'b')[1] }} {{ [('a', 1)] }} {{ 'a' < 'B' }} {{ 3 > 2 == true }}
{% for c in 'añb' %}{{ c }}.{% endfor %}{% for k in {'a': 1, 'b': 2} %}{{ k }}{% endfor %}{{ {'a': 1, 'a': 2} }}
{{ 10000000000 * 1000000 }}
{{ "%s" | replace("%s", "x") }} {{ 'A' in ['a'] }} {{ [] is string }} {{ [[]] | first | length }}
{% macro box(t) %}[{{ t }}:{{ caller() }}]{% endmacro %}{% call box('a') %}in {{ 1 + 1 }}{% endcall %}
{% macro each(xs) %}{% for x in xs %}{{ caller(x, loop.index) }};{% endfor %}{% endmacro %}{% call(a, b) each([1, 2]) %}{{ a }}-{{ b }}{% endcall %}
{% macro f() %}{{ caller is defined }}{% endmacro %}{{ f() }}{% call f() %}x{% endcall %}
{% filter upper %}abc {{ 'd' }}{% endfilter %}{% filter trim | replace('a', 'b') %} a {% endfilter %}
{% for i in [1, [2, [3]]] recursive %}{% if i is iterable %}({{ loop(i) }}){% else %}{{ i }}@{{ loop.depth }}{% endif %}{% endfor %}
{{ [{'k': 'b', 'v': 1}, {'k': 'a', 'v': 2}, {'k': 'b', 'v': 3}] | groupby('k') | list }}
{% for g, items in messages | groupby('role') %}{{ g }}:{{ items | length }} {% endfor %}{% for g in messages | groupby('role') %}{{ g.grouper }}{{ g.list | length }}{% endfor %}
{% for k, v in [{'a': 'B'}, {'a': 'b'}, {}] | groupby('a', default='z') %}{{ k }}{{ v | length }} {% endfor %}
{{ [1, 2, 3, 4, 5] | batch(2) | list }} {{ [1, 2, 3] | batch(2, 'x') | list }} {{ [1, 2, 3, 4, 5] | slice(2) | list }} {{ [1, 2, 3, 4, 5] | slice(3, 'f') | list }}
{{ 'one two  three' | wordcount }} {{ 'ab' | center(7) }}| {{ 'a long text that goes on' | truncate(10) }} {{ 'a long text' | truncate(10, true) }} {{ 'a long text that' | truncate(8, false, '..', 0) }}
{{ '%s is %d and %5.2f|%-4s|%04d|%x%%' % ('x', 3, 2.5, 'a', 7, 255) }} {{ '%s' % 'one' }} {{ '%r' % ['a'] }} {{ '%s is %+d' | format('x', 3) }} {{ '%e %g %G' % (1234.5, 0.00001, 1e20) }}
{{ '%d' % 'a' }}
{{ '%s %s' % 'a' }}
{{ '%s' % ('a', 'b') }}
{{ '7'.zfill(3) }} {{ '-7'.zfill(4) }} {{ 'ab'.center(5) }}| {{ 'abc'.center(6, '*') }} {{ 'ab'.ljust(4, '.') }} {{ 'ab'.rjust(4) }} {{ 'a-b-c'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'a'.partition('x') }} {{ 'a'.rpartition('x') }} {{ 'abc'.index('c') }} {{ 'abca'.rindex('a') }}
{{ 'abc'.index('x') }}
{{ '²'.isdigit() }} {{ '²'.isdecimal() }} {{ '٣'.isdecimal() }} {{ 'ab'.isascii() }} {{ 'é'.isascii() }} {{ ''.isascii() }} {{ {'a': 1}.copy() }} {{ [3, 1].copy() }}
{% macro f() %}x{% endmacro %}{% call f() %}y{% endcall %}
{% for i in [[1, []], [2, [[3, []]]]] recursive %}{{ loop.depth }}{{ loop.depth0 }}{{ i[0] }}{% if i[1] %}<{{ loop(i[1]) }}>{% endif %}{{ loop.index }}{% else %}none{% endfor %}
{% for i in [1] %}{{ loop([2]) }}{% endfor %}
{% filter nofilter %}x{% endfilter %}
{% call 1 %}x{% endcall %}
{% block a %}{% block a %}{% endblock %}
{% for m in messages %}{% if loop.previtem is defined %}{{ loop.previtem.role }}{% endif %}{% if loop.nextitem is defined %}>{{ loop.nextitem.role }}{% endif %} {% endfor %}
{{ [1, 2, 3] | sum(start=10) }} {{ [1, 2] | max }} {{ ['a', 'B'] | max }} {{ [] | max }} {{ [2, 1] | min }} {{ messages | map(attribute='content') | map('length') | list }}
{{ messages | selectattr('role', 'ne', 'user') | map(attribute='role') | list }} {{ messages | selectattr('content', 'string') | list | length }} {{ messages | rejectattr('role', 'in', ['user']) | map(attribute='role') | first }}
{% set f = messages[0].content.strip %}{{ f() }}
{{ -5 % 3 }} {{ 5 // -2 }} {{ 5.5 // 2 }} {{ 2 ** 0.5 }} {{ 1_0 + 0x1f + 0b11 + 0o7 }} {{ 1.5e3 }} {{ .5 }}
{% set a = {'x': [1, {'y': 'z'}]} %}{{ a.x[1].y }} {{ a['x'][1]['y'] }} {{ a.get('x')[0] }} {{ a.get('q', {}).get('r', 'none') }} {{ a.x[1:][0]['y'] }}
{{ missing | default }} {{ missing | d('x') }} {{ (missing or 'alt') }} {{ missing ~ 'a' }} {{ [missing] }} {{ missing == '' }} {{ missing | upper }} {{ missing | list }} {{ missing | join(',') }} {{ missing | trim }} {{ missing | first is defined }} {{ not missing }}
{% set x = 5 %}{% for i in [1] %}{% set x = 6 %}{% endfor %}{{ x }}{% if 1 %}{% set x = 7 %}{% endif %}{{ x }}{% with x = 8 %}{{ x }}{% set x = 9 %}{% endwith %}{{ x }}
{% raw %}{{ a }}{% endraw %}{%raw%} x {%- endraw %}{% if 1 -%}  a  {%- endif %}  b {%- if 0 %}{% endif +%}
{{ namespace(a=1).a }} {{ true + true }} {{ -true }} {{ +3 }} {{ --3 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }}
""".strip("\n")


def snippets():
    # A line each, but for those of several lines, which lie between two of them by hand.
    lines, out, i = SNIPPETS.split("\n"), [], 0
    blocks = {"  {% if true %}": 4, "a": 5, "  {%+ if true %}": 3}
    while i < len(lines):
        count = blocks.get(lines[i], 1)
        out.append("\n".join(lines[i:i + count]))
        i += count
    return out


def render(template, case, prompt):
    values = {k: v for k, v in case.items() if k not in ("messages", "tools")}
    messages = [{k: v for k, v in m.items() if v is not None} for m in case["messages"]]
    try:
        text, spans = utils.render_jinja_template([messages], tools=case.get("tools"),
            chat_template=template, add_generation_prompt=prompt,
            return_assistant_tokens_mask="generation %}" in template or "generation -%}" in template,
            **SPECIAL, **values)
        return text[0]
    except Exception as error:
        return {"error": str(error)[:80]}


def write(name, values):
    lines = [json.dumps(v, ensure_ascii=False) for v in values]
    (FOLDER / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def make_renderings():
    write("conversations.txt", CONVERSATIONS)
    for path in sorted(FOLDER.glob("*.jinja")):
        template = path.read_text(encoding="utf-8")
        write(path.stem + ".txt", [render(template, case, prompt)
                                   for case in CONVERSATIONS for prompt in (False, True)])
    write("snippets.txt", [[one, render(one, CONVERSATIONS[1], True)] for one in snippets()])


def mask_samples():
    words = ["sea", "Köln", "x = 1;\n", "😀", "  two", "don't", "12345", "你好", "\n\n", "end."]
    number = 1
    for i in range(40):
        contents = []
        for _ in range(1 + i % 6):
            number = (number * 1103515245 + 12345) % 2**31
            contents.append(" ".join(words[(number >> (4 * k + 3)) % 10] for k in range(1 + number % 5)))
        yield turns(*contents, system="S." if i % 3 == 0 else None)


def runs(mask):
    out, last = [], 0
    for bit in mask:
        if not out or bit != last:
            out.append(0)
            if len(out) == 1 and bit:
                out.append(0)
            last = bit
        out[-1] += 1
    return out


def ids_of(tokenizer, template, messages, prompt):
    return tokenizer.apply_chat_template(messages, chat_template=template, tokenize=True,
                                         add_generation_prompt=prompt, return_dict=False,
                                         **SPECIAL, date_string="1 Jan 2020")


# A turn's tokens are those that it adds to the turns before it and the beginning of an answer.
def prefix_mask(tokenizer, template, messages):
    try:
        return turns_mask(tokenizer, template, messages)
    except Exception:
        return []  # the template refuses the whole or the beginning


def turns_mask(tokenizer, template, messages):
    whole = ids_of(tokenizer, template, messages, False)
    mask = [0] * len(whole)
    for i, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before = ids_of(tokenizer, template, messages[:i], True)
        behind = ids_of(tokenizer, template, messages[:i + 1], False)
        if whole[:len(before)] != before or whole[:len(behind)] != behind:
            return []
        mask[len(before):len(behind)] = [1] * (len(behind) - len(before))
    return mask


# TRL's: all but the last message are the prompt.
def completion_mask(tokenizer, template, messages):
    if len(messages) < 2 or messages[-1]["role"] != "assistant":
        return []
    whole = ids_of(tokenizer, template, messages, False)
    prompt = ids_of(tokenizer, template, messages[:-1], True)
    if whole[:len(prompt)] != prompt:
        return []
    return [0] * len(prompt) + [1] * (len(whole) - len(prompt))


# Lengths of runs of tokens without and with loss, in turn, by transformers' own mask.
def make_masks():
    template = (FOLDER / "chatml_generation.jinja").read_text(encoding="utf-8")
    folder = FOLDER.parent / "tokenizers"
    for name in ("qwen", "llama3", "llama2", "gpt2", "deepseek"):
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=tokenizers.Tokenizer.from_file(str(folder / (name + ".json"))))
        plain = (FOLDER / "chatml.jinja").read_text(encoding="utf-8")
        out, by_prefix, completions = [], [], []
        for messages in mask_samples():
            by_prefix.append(runs(prefix_mask(tokenizer, plain, messages)))
            completions.append(runs(completion_mask(tokenizer, plain, messages)))
            got = tokenizer.apply_chat_template(messages, chat_template=template, tokenize=True,
                                                return_dict=True, return_assistant_tokens_mask=True)
            out.append([messages, runs(got["assistant_masks"])])
        write(f"prefixes.{name}.txt", by_prefix)
        if name == "qwen":
            for other in ("llama3", "gemma", "deepseek", "zephyr", "phi", "mistral", "qwen3",
                          "qwen25", "mistral7", "harmony", "coder", "commandr"):
                template = (FOLDER / (other + ".jinja")).read_text(encoding="utf-8")
                write(f"prefixes.{other}.template.txt",
                      [runs(prefix_mask(tokenizer, template, m)) for m in mask_samples()])
            template = (FOLDER / "chatml_generation.jinja").read_text(encoding="utf-8")
        write(f"completions.{name}.txt", completions)
        if name == "qwen":
            write("masks.messages.txt", [one[0] for one in out])
        write(f"masks.{name}.txt", [one[1] for one in out])


if __name__ == "__main__":
    make_renderings()
    make_masks()
