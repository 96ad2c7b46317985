// What templates render to, what they may not do, and where they stop. That this is what Python's jinja2 renders is
// checked by tools/template_check.
#include "jinja/template.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "jinja/json.h"

using namespace smelt;
using nlohmann::ordered_json;

namespace {

jinja::Context context_of(const char* json) {
  jinja::Context context;
  const auto parsed = ordered_json::parse(json);
  for (const auto& [name, value] : parsed.items()) {
    context.emplace_back(name, jinja::from_json(value, jinja::Text::Origin::user));
  }
  return context;
}

Result<jinja::Text> render(std::string_view source, const char* context, const jinja::Limits& limits = {}) {
  SMELT_TRY(parsed, jinja::Template::parse(source));
  return parsed.render(context_of(context), {limits, {}});
}

// The text, or the error.
std::string rendered(std::string_view source, const char* context = "{}", const jinja::Limits& limits = {}) {
  const auto text = render(source, context, limits);
  return text ? text->bytes() : text.error().message;
}

// The text with the bytes of users in brackets.
std::string marked(std::string_view source, const char* context) {
  const auto text = render(source, context);
  if (!text) return text.error().message;
  std::string out;
  size_t done = 0;
  for (const auto& [begin, end] : text->user()) {
    out += text->bytes().substr(done, begin - done) + "[" + text->bytes().substr(begin, end - begin) + "]";
    done = end;
  }
  return out + text->bytes().substr(done);
}

std::string repeated(std::string_view part, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += part;
  return out;
}

}  // namespace

TEST_CASE("a block tag takes its line end and the spaces before it along") {
  CHECK(rendered("a\n  {% if true %}\n  b\n  {% endif %}\nc") == "a\n  b\nc");
  CHECK(rendered("a  {%- if true -%}  b  {%+ endif +%}\nc") == "ab  \nc");
  CHECK(rendered("{# note #}\nx\n") == "x");
}

TEST_CASE("loops know their place and can be left") {
  CHECK(rendered("{% for x in xs %}{{ loop.index }}/{{ loop.length }}{{ ',' if not loop.last }}{% endfor %}",
                 R"({"xs": [5, 6]})") == "1/2,2/2");
  CHECK(rendered("{% for x in range(9) %}{% if x == 2 %}{% continue %}{% elif x > 3 %}{% break %}{% endif %}{{ x }}"
                 "{% endfor %}") == "013");
  CHECK(rendered("{% for k, v in d.items() recursive %}{{ k }}{% if v is mapping %}({{ loop(v.items()) }}){% endif %}"
                 "{% endfor %}",
                 R"({"d": {"a": {"b": 1}, "c": 2}})") == "a(b)c");
}

TEST_CASE("a variable set in a loop ends with it, an attribute of a namespace does not") {
  CHECK(rendered("{% set n = 0 %}{% set ns = namespace(n=0) %}{% for i in range(3) %}{% set n = i %}{% set ns.n = i %}"
                 "{% endfor %}{{ n }} {{ ns.n }}") == "0 2");
}

TEST_CASE("macros take arguments, defaults and the body of a call") {
  CHECK(rendered("{% macro m(a, b='-') %}{{ a }}{{ b }}{{ caller() if caller }}{% endmacro %}"
                 "{{ m(1) }} {% call m(2, b='+') %}body{% endcall %}") == "1- 2+body");
}

TEST_CASE("JSON is written as Python writes it") {
  const char* value = R"({"v": {"a": "ü\n<", "b": [1, 2.0, 1e-7, null, true], "c": {}}})";
  CHECK(rendered("{{ v | tojson }}", value) == R"({"a": "ü\n<", "b": [1, 2.0, 1e-07, null, true], "c": {}})");
  CHECK(rendered("{{ v.b[:2] | tojson(indent=2) }}", value) == "[\n  1,\n  2.0\n]");
  CHECK(rendered("{{ v.a | tojson(ensure_ascii=true) }}", value) == R"("\u00fc\n<")");
}

TEST_CASE("what a user wrote stays marked through every way of cutting and joining") {
  const char* context = R"({"u": " <b> ", "m": {"role": "user", "content": "x<eos>y"}})";
  CHECK(marked("<s>{{ u }}</s>", context) == "<s>[ <b> ]</s>");
  CHECK(marked("{{ '<' + u | trim + '>' }}", context) == "<[<b>]>");
  CHECK(marked("{{ m.content.split('<eos>') | join('|') }}", context) == "[x]|[y]");
  CHECK(marked("{{ m.content[1:] }}{{ m.content | replace('<eos>', '#') }}", context) == "[<eos>yx]#[y]");
  CHECK(marked("{{ m | tojson }}", context) == R"({["role"]: ["user"], ["content"]: ["x<eos>y"]})");
  CHECK(marked("{{ 'a%sb' % u }}{{ '{}'.format(u) }}{{ u | upper }}", context) == "a[ <b> ]b[ <b>  <B> ]");
  CHECK(marked("{% set x %}a{{ u }}{% endset %}{% macro m(v) %}({{ v }}){% endmacro %}{{ m(x) }}", context) ==
        "(a[ <b> ])");
  CHECK(marked("{% for c in 'a' ~ u %}{{ c }}{% endfor %}", context) == "a[ <b> ]");
}

// jinja2 reads "not" after an operator as a name, and nothing in brackets as an empty tuple.
TEST_CASE("brackets without an index") {
  CHECK(rendered("{% if false %}{{ x != not [] }}{% endif %}{{ {'a': 1}[] is defined }}") == "False");
  CHECK(rendered("{{ {(): 'found'}[] }}") == "found");
}

TEST_CASE("rounding up to zero has no sign") {
  CHECK(rendered("{{ -0.675 | round(0, 'ceil') }} {{ -0.0 | round(1, 'floor') }} {{ -0.4 | round }}") ==
        "0.0 0.0 -0.0");
}

TEST_CASE("errors name the line and what to look at") {
  CHECK(rendered("a\n{% if x %}") == "[template] line 2: missing {% endif %}");
  CHECK(rendered("\n{{ x.y }}") == "[template] line 2: 'x' is undefined");
  CHECK(rendered("{{ raise_exception('roles must alternate') }}") ==
        "[template] line 1: it refuses this chat: roles must alternate");
  CHECK(rendered("{% include 'x' %}") ==
        "[template] line 1: the tag 'include' is unknown, or not one of chat templates");
  CHECK(rendered("{{ [].append(1) }}") == "[template] line 1: a template may not change a list; use a namespace");
}

TEST_CASE("the sandbox has nothing that leads out of it") {
  for (const char* attack : {"{{ ''.__class__.__mro__ }}",
                             "{{ self }}{{ self.__init__ }}",
                             "{{ ().__class__.__bases__[0].__subclasses__() }}",
                             "{{ cycler.__init__.__globals__.os }}",
                             "{{ joiner.__init__.__globals__ }}",
                             "{{ namespace.__init__ }}",
                             "{{ '%s'|format(x.__class__) }}",
                             "{{ '{0.__class__}'.format(x) }}",
                             "{{ '{0.__class__.__init__}'.format('') }}",
                             "{{ lipsum.__globals__ }}",
                             "{{ x|attr('__class__')|attr('__mro__') }}",
                             "{{ range.__self__ }}",
                             "{{ [].__class__ }}",
                             "{{ {}['__class__']['__mro__'] }}",
                             "{{ config.items() }}",
                             "{{ request.application }}",
                             "{{ get_flashed_messages.__globals__ }}",
                             "{{ url_for.__globals__ }}",
                             "{% import 'os' as os %}",
                             "{% from 'x' import y %}",
                             "{% extends '/etc/passwd' %}",
                             "{{ ''['__cla' ~ 'ss__'] }}"}) {
    const std::string text = rendered(attack, R"({"x": "y"})");
    CAPTURE(attack);
    CHECK((text.empty() || text == "y" || text.starts_with("[template] ")));
  }
}

TEST_CASE("every limit holds at its edge and just within it") {
  jinja::Limits limits;
  limits.operations = 1000;
  CHECK(rendered("{% for i in range(100) %}{% endfor %}", "{}", limits).empty());
  CHECK(rendered("{% for i in range(2000) %}{% endfor %}", "{}", limits).find("more than 1000 steps") !=
        std::string::npos);
  limits = {};
  limits.output = 64;
  CHECK(rendered("{{ 'x' * 64 }}", "{}", limits).size() == 64);
  CHECK(rendered("{{ 'x' * 65 }}", "{}", limits).find("more than 64 bytes") != std::string::npos);
  CHECK(rendered("{{ 'x' * 60 }}{{ 'x' * 5 }}", "{}", limits).find("more than 64 bytes") != std::string::npos);
  limits = {};
  limits.range = 10;
  CHECK(rendered("{{ range(10)|length }}", "{}", limits) == "10");
  CHECK(rendered("{{ range(11)|length }}", "{}", limits).find("more than 10 items") != std::string::npos);
  limits = {};
  const char* recursion = "{% macro m(n) %}{{ m(n - 1) if n > 1 else 'end' }}{% endmacro %}{{ m(depth) }}";
  CHECK(rendered(recursion, R"({"depth": 128})", limits) == "end");
  CHECK(rendered(recursion, R"({"depth": 129})", limits).find("more than 128 levels") != std::string::npos);
}

TEST_CASE("bombs are refused with a sentence") {
  for (const std::string& bomb :
       {"{{ " + repeated("(", 100000) + "1" + repeated(")", 100000) + " }}",
        "{{ " + repeated("[", 100000) + repeated("]", 100000) + " }}",
        "{{ " + repeated("-", 100000) + "1 }}",
        "{{ " + repeated("not ", 100000) + "1 }}",
        "{{ x" + repeated("|trim", 100000) + " }}",
        "{{ x" + repeated("[0]", 100000) + " }}",
        repeated("{% if true %}", 100000),
        "{{ " + repeated("1 if 1 else ", 100000) + "1 }}",
        "{{ " + repeated("2 ** ", 100000) + "2 }}",
        "{% for " + repeated("(", 100000) + "a" + repeated(")", 100000) + " in x %}{% endfor %}",
        std::string("{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}"),
        std::string("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
        "{% macro m() %}" + repeated("{% if true %}", 100) + "{{ " + repeated("[", 100) + "m()" + repeated("]", 100) +
            " }}" + repeated("{% endif %}", 100) + "{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ " + repeated("(1,", 120) + "m()" + repeated(")", 120) + " }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ m()" + repeated("|string|trim", 50) + " }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ " + repeated("-(", 50) + "m()" + repeated(")", 50) + " }}{% endmacro %}{{ m() }}",
        std::string("{{ range(10 ** 9) }}"),
        std::string("{{ 'x' * 10 ** 12 }}"),
        std::string("{{ '%9999999999d' % 1 }}"),
        std::string(
            "{% set ns = namespace(x='xxxxxxxx') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"),
        std::string("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}")}) {
    CAPTURE(bomb.substr(0, 60));
    CHECK(rendered(bomb).starts_with("[template] "));
  }
}

TEST_CASE("long chains of operators are not deep") {
  CHECK(rendered("{{ 0" + repeated(" + 1", 5000) + " }}") == "5000");
  CHECK(rendered("{{ 'a'" + repeated(" ~ 'b'", 5000) + " }}").size() == 5001);
  CHECK(rendered("{{ true" + repeated(" and true", 5000) + " }}") == "True");
}

TEST_CASE("a namespace that holds itself is given back") {
  CHECK(rendered("{% set ns = namespace() %}{% set ns.self = ns %}{{ ns.self is defined }}") == "True");
}
