#!/usr/bin/env python3
"""Writes chat_templates.json: what transformers makes of templates of our own, which use what real chat templates use.

usage: golden_chats.py OUT.json     (transformers 5.12 and jinja2 3.1 wrote the one here)
Each case is [template, variables, text] or [template, variables, null, words of the error].
"""
import json
import sys

from transformers.utils import chat_template_utils as utils

VARIABLES = {
    "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "  Grüße, 世界 "},
                 {"role": "assistant", "content": None, "tool_calls": [
                     {"type": "function", "id": "a1", "function": {"name": "f", "arguments": {"x": 1, "y": [True, None, 2.5]}}}]},
                 {"role": "tool", "content": "42", "name": "f"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\n42."}],
    "tools": [{"type": "function", "function": {"name": "f", "description": "d \"q\" <b>", "parameters": {
        "type": "object", "properties": {"x": {"type": "integer"}, "items": {"type": "array", "items": {"type": "string"}}}}}}],
    "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True, "n": 7, "text": "ab cd", "number": 1.5,
    "list": [3, 1, 2], "words": ["b", "A", "c"], "dict": {"k": "v", "a b": 1, "items": 2}, "none": None, "uni": "äöü€𝄞"}

# Expressions, with ¦ between them, each of which is printed.
EXPRESSIONS = r"""
n + 1¦n - 1 * 2¦n % 4¦-7 % 3¦1.5 * 2¦n ~ 'a' ~ none ~ 1.0
'a' 'b'¦'a' * 3¦3 * 'ab'¦[1] * 2¦[1] + [2]¦(1,)¦(1, 2) + (3,)¦()¦[]¦{}¦{'a': 1, 2: none}¦true¦none¦1 == 1.0¦1 == true¦'a' < 'b'¦[1, 2] < [1, 3]
2 in list¦'b' in text¦'k' in dict¦'x' not in dict¦not n¦n and 0¦0 or 'x'¦none or []¦n > 5 and 'yes' or 'no'
'yes' if n > 5¦'yes' if n > 9¦'y' if n > 9 else 'n'¦missing¦missing.__class__ is defined¦dict.k¦dict['a b']¦dict['items']¦dict.missing
dict.get('k')¦dict.get('z')¦dict.get('z', 5)¦dict.items()¦dict.keys()¦dict.values()¦dict.items() | list¦messages[0].role¦messages[-1]['content'][:7]
list[1:]¦list[::-1]¦list[:-1]¦list[5]¦list.0¦text[0]¦text[-1]¦text[1:3]¦text[::-1]¦uni[1]¦uni[-1]¦uni[::2]¦uni[:3]¦uni | length¦text[10]
'<{}|{}> {{x}}'.format(n, 'b')¦'{}{}{}'.format(none, 1.0, list)¦'{}'.format(missing)¦'}}é{{'.format(1)¦('<b>{}' | safe).format('<i>')¦''.format()
text.upper()¦text.title()¦text.split()¦'a,b,c'.split(',')¦'a,b,c'.split(',', 1)¦' a '.strip()¦'xxaxx'.strip('x')¦'xa'.lstrip('x')¦'ax'.rstrip('x')
'\n a\t'.strip()¦text.startswith('ab')¦text.endswith(('x', 'cd'))¦text.replace('b', 'X')¦text.find('c')¦text.count('b')¦'</think>' in messages[4].content¦messages[4].content.split('</think>')[-1].lstrip('\n')¦'Straße'.upper()¦'ß'.lower()
list | sort¦list | sort(reverse=true)¦words | sort¦words | sort(case_sensitive=true)¦list | first¦list | last¦list | length¦list | min¦list | max¦words | min¦words | max¦words | min(case_sensitive=true)¦['b', 'B'] | max¦[] | min¦tools | max(attribute='type')¦list | join(', ')¦words | map('upper') | list¦words | map('upper') | join¦messages | map(attribute='role') | list¦messages | map(attribute='role') | join(',')¦messages | selectattr('role', 'equalto', 'user') | list | length¦messages | rejectattr('content') | map(attribute='role') | first¦messages | selectattr('tool_calls', 'defined') | list | count¦list | select('gt', 1) | list¦list | reject('in', [1, 2]) | list¦dict | dictsort¦dict | items | list
text | capitalize¦text | title¦text | upper¦text | lower¦' x ' | trim¦'xyx' | trim('x')¦'a\nb' | indent¦'a\nb' | indent(2, true)¦'a\n\nb' | indent(2, blank=true)¦'a' | default('d')¦missing | default('d')¦'' | default('d', true)¦missing | d¦none | string¦n | string¦text | replace('a', 'b')¦'aaa' | replace('a', 'b', 2)¦'<a>' | safe¦'<a>' | safe + '<b>'¦'<a>' | safe ~ '<b>'¦'3' | int¦'3.7' | int¦'x' | int¦'x' | int(5)¦'1.5' | float¦'x' | float¦text | list¦text | length¦none | tojson
dict | tojson¦tools | tojson¦tools | tojson(indent=2)¦uni | tojson¦uni | tojson(ensure_ascii=true)¦dict | tojson(separators=(',', ':'))¦dict | tojson(sort_keys=true)¦[] | tojson(indent=4)¦[1.0, '1e22' | float, '1e-7' | float, 0.1] | tojson¦'\u2028"\\/\n\x01' | tojson¦(1, 2) | tojson¦{1: 2, true: none} | tojson
n is number¦n is integer¦number is float¦text is string¦list is sequence¦dict is mapping¦dict is sequence¦text is iterable¦n is iterable¦missing is defined¦missing is undefined¦missing is none¦none is none¦none is not none¦true is boolean¦true is true¦1 is true¦n is sameas 7¦n is eq 7¦n is ge(3)¦3 is in list¦n is in [7]¦n is not defined¦n is number and true¦messages[2].content is none¦missing is iterable¦dict is iterable and dict is not mapping
range(3) | list¦range(1, 8, 3) | list¦range(5)¦namespace(a=1).a¦[1, 'a', none, true, 1.0, {'x': [1]}, (1,)]¦'it\'s'¦["it's", 'say "x"', 'both \' "', 'a\nb\\', 'é\u200b\xa0']¦'1e16' | float¦'1e15' | float¦123456789.123¦'1e-5' | float¦0.0001¦-0.0¦100000000000000000.0¦messages[2].tool_calls[0].function.arguments¦'a' if none is none and (not false) else 'b'¦(n, text)¦[n, text][0]¦{'a': {'b': 2}}.a.b¦(dict.k)¦-(n)¦not not n¦'é'¦'\u00e9\x41\q'
missing + 1¦missing.x¦dict.x.y¦'a' + 1¦1 + 'a'¦'a' + none¦[1] + (2,)¦none.x.y¦none()¦n()¦missing()¦list.append(4)¦dict.update({})¦dict.pop('k')¦text.__class__¦1 % 0¦n < 'a'¦none < 1¦'a' in n¦1 in text¦list[1.5].x¦{[1]: 2}¦range(200000)¦raise_exception('said so')¦'a' | nofilter¦n is notest¦text.nomethod()¦[1, 'a'] | sort¦n | length¦n | list¦none | join¦missing | tojson¦{} | first¦[] | first¦list | join(1, 2, 3)¦'x' | int('y') + 1¦text.split('')¦'{}{}'.format(1)¦[1, 'a'] | min¦n | max¦namespace(a=1).b.c¦words | map('nofilter') | list¦strftime_now(1)
"""

# Statements.
TEMPLATES = [
    "{% for m in messages %}{{ m.role }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for m in messages %}\n  {% if m.role == 'user' %}\n    {{ m.content }}\n  {% endif %}\n{% endfor %}\n",
    "{%- for m in messages -%}\n  {{- m.role -}}\n{%- else -%} none {%- endfor -%}\n\n",
    "  {% set x = 1 %}\n  {{ x }}\n  {# comment #}\n  {{- x }}\n\t{%+ if true %}a{% endif +%}\n b",
    "{% for i in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}",
    "{% for i in list if i > 1 %}{{ loop.index }}:{{ i }}{{ loop.previtem }}{{ loop.last }} {% endfor %}",
    "{% for k, v in dict.items() %}{{ k }}={{ v }};{% endfor %}{% for k in dict %}{{ k }}{% endfor %}{% for c in 'aé' %}{{ c }}.{% endfor %}",
    "{% for i in [] %}x{% else %}empty{% endfor %}{% for i in missing %}x{% else %}empty{% endfor %}",
    "{% for i in list %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% if loop.index == 3 %}{% break %}{% endif %}{% endfor %}",
    "{% for i in list %}{% break %}{% else %}broken{% endfor %}{% for i in list %}{% continue %}{% else %}continued{% endfor %}",
    "{% set x = 1 %}{% for i in list %}{% set x = i %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}",
    "{% set ns = namespace(found=false, count=0) %}{% for m in messages %}{% if m.role == 'tool' %}{% set ns.found = true %}{% endif %}{% set ns.count = ns.count + 1 %}{% endfor %}{{ ns.found }}{{ ns.count }}{{ ns.nothing }}",
    "{% set ns = namespace(stop=false) %}{% for m in messages if not ns.stop %}{{ m.role }}{% if loop.index == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d) = [3, 4] %}{{ c }}{{ d }}{% set t = 1, 2 %}{{ t }}",
    "{% set x %}a{{ n }}b{% endset %}[{{ x }}]{% set y | upper | replace('A', '_') %}a{{ n }}{% endset %}[{{ y }}]",
    "{% macro f(a, b='x', c=a) %}({{ a }},{{ b }},{{ c }}){% endmacro %}{{ f(1) }}{{ f(1, 2) }}{{ f(c=3, a=1) }}{{ f() }}",
    "{% macro f() %}{{ caller is defined }}{% endmacro %}{{ f() }}",
    "{% macro f(x) %}<{{ caller(x) }}|{{ caller('y') }}>{% endmacro %}{% call(v) f(1) %}v={{ v }}{% endcall %}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}", "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, z=2) }}",
    "{% macro tree(x) %}{% if x is mapping %}{ {%- for k, v in x.items() %}{{ k }}:{{ tree(v) }}{% if not loop.last %},{% endif %}{% endfor -%} }{% else %}{{ x }}{% endif %}{% endmacro %}{{ tree({'a': {'b': 1}, 'c': 2}) }}",
    "{% macro f() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ f() }}{% set x = 2 %}{{ f() }}{{ f }}",
    "{% filter upper %}a{{ text }}{% endfilter %}",
    "{% if n > 9 %}a{% elif n > 5 %}b{% else %}c{% endif %}",
    "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.role }}{% endif %}{% endfor %}",
    "{% generation %}{% set x = 1 %}{% endgeneration %}{{ x }}",
"{{ messages | map(attribute='content') | select | join('|') }}",
    "{% set g = list | map('string') %}{{ g | join }}{{ g | join }}.", "{{ 'a' }}\n", "{{ 'a' }}\n\n", "a\r\nb\rc", "\n{% if true %}\n\nx\n{% endif %}\n\ny",
    "{%- if messages[0]['role'] == 'system' -%}\n    {%- set system = messages[0]['content'] -%}\n    {%- set rest = messages[1:] -%}\n{%- endif -%}\n{{ system | trim + '\\n' }}{{ rest | length }}",
    "{% for m in messages %}{% set content = m.content if m.content is string else '' %}{{ loop.index0 ~ ': ' + content }}\n{% endfor %}",
    "{{ bos_token }}{% for m in messages %}{{ '<|' ~ m['role'] ~ '|>' + (m['content'] or '') | trim + eos_token }}{% endfor %}",
    "{% for t in tools %}{{ t.function.name }}: {{ t.function.parameters.properties | tojson(indent=4) }}{% for k, v in t.function.parameters.properties | items %}{{ k }}{{ v.type }}{{ v.get('items') }}{% endfor %}{% endfor %}",
    "{% for call in messages[2].tool_calls %}{% for k, v in call.function.arguments | items %}<{{ k }}>{{ v | tojson if v is not string else v }}</{{ k }}>{% endfor %}{% endfor %}",
    "{% if tools is defined and tools is not none and tools | length > 0 %}T{% endif %}{% if documents %}D{% endif %}{% if not documents is defined %}U{% endif %}",
    "{% set last = namespace(i=messages | length - 1) %}{% for m in messages[::-1] %}{% set i = (messages | length - 1) - loop.index0 %}{% if m.role == 'user' %}{% set last.i = i %}{% endif %}{% endfor %}{{ last.i }}",
    "{% if n is string %}{{ 1 | nofilter }}{% else %}ok{% endif %}", "{% for i in list %}{{ i | nofilter }}{% endfor %}",
    "{% set loop = 1 %}{{ loop }}{% for i in list %}{{ loop.index }}{% endfor %}",
    # Texts that are no templates.
    "{% if true %}", "{{ 1", "{% endif %}", "{% foo %}", "{{ }}", "{{ 1 2 }}", "{{ (1 }}", "{{ 'a }}", "{# a", "{% for i %}{% endfor %}",
    "{% set 1 = 2 %}", "{% set x.y = 2 %}", "{% set none = 2 %}", "{% break %}", "{% macro f(a=1, b) %}{% endmacro %}", "{{ f(a=1, 2) }}", "{% do x %}",
    "{% include 'x' %}", "{% call 1 %}{% endcall %}", "{{ a.1.5 }}", "{{ 1 is 2 }}", "{{ x ! y }}", "{% for loop in list %}{% endfor %}", "{{ [1, }}", "{% if %}{% endif %}",
]

SAME_ERROR = "="  # an error, in words that may differ


def outcome(template):
    try:
        return [utils._compile_jinja_template(template).render(**VARIABLES)]
    except Exception as error:
        said = type(error).__name__ in ("UndefinedError", "TemplateError", "SecurityError")
        return [None, str(error) if said else SAME_ERROR]


templates = ["{{ " + one + " }}" for line in EXPRESSIONS.strip("\n").split("\n") for one in line.split("¦")]
cases = [[template, *outcome(template)] for template in templates + TEMPLATES]
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump({"variables": VARIABLES, "cases": cases}, file, ensure_ascii=False, indent=0)
    file.write("\n")
print(len(cases), "cases,", sum(len(case) == 3 for case in cases), "errors")
