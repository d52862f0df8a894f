// The template language beside transformers: tests/golden/golden_chats.py made the texts.

#include "tapegrad/base/file.h"
#include "tapegrad/data/jinja/internal/template.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using data::RenderLimits;
using data::jinja::Template;
using data::jinja::TemplateError;

namespace {

using Variables = std::vector<std::pair<std::string, data::jinja::Value>>;

Variables variables_of(const Json& object) {
  Variables variables;
  for (const auto& [name, value] : object.items()) {
    variables.emplace_back(name, data::jinja::value_of(value));
  }
  return variables;
}

std::string render(const std::string& source, const Variables& variables = {},
                   const RenderLimits& limits = {}) {
  return Template(source).render(variables, limits).text;
}

// The words of the error that a template ends with.
std::string error_of(const std::string& source, const RenderLimits& limits = {}) {
  try {
    render(source, {}, limits);
  } catch (const TemplateError& error) {
    return error.what();
  }
  return "no error";
}

const RenderLimits kSmall{
    .steps = 100'000, .text_bytes = 10'000, .memory_bytes = 1 << 20, .depth = 200};

}  // namespace

TEST_CASE("templates give the texts and errors of transformers", "[jinja]") {
  const Json golden = parse_json<Json>(read_file(golden_file("chat_templates.json"), 1 << 20), 32);
  const Variables variables = variables_of(golden["variables"]);
  CHECK(golden["cases"].size() > 300);
  for (const Json& one : golden["cases"]) {
    const auto source = one[0].get<std::string>();
    INFO(source);
    std::string text, error;
    try {
      text = render(source, variables);
    } catch (const TemplateError& failed) {
      error = failed.what();
    }
    if (one[1].is_null()) {
      const auto words = one[2].get<std::string>();
      INFO(error << " and not " << words);
      CHECK_FALSE(error.empty());
      CHECK((words == "=" || error.ends_with(words)));
    } else {
      CHECK(error == "");
      CHECK(text == one[1].get<std::string>());
    }
  }
}

TEST_CASE("an error of a template names its line", "[jinja]") {
  CHECK(error_of("a\n{% if true %}\n{{ none + 1 }}\n{% endif %}") ==
        "[chat template] line 3: unsupported operand type(s) for +: 'NoneType' and 'int'");
  CHECK(error_of("\n\n{{ 1 2 }}").starts_with("[chat template] line 3: "));
  CHECK(error_of("{% macro f() %}\n{{ x.y }}\n{% endmacro %}\n{{ f() }}") ==
        "[chat template] line 2: 'x' is undefined");
  CHECK(error_of("{#-\n-#}\n{% include 'x' %}").starts_with("[chat template] line 3: 'include'"));
}

TEST_CASE("what a template takes is bounded", "[jinja]") {
  const auto refused = [](const std::string& source, const std::string& words) {
    INFO(source.substr(0, 200));
    CHECK(error_of(source, kSmall).find(words) != std::string::npos);
  };
  const std::string loop = "{% for i in range(9999) %}", end = "{% endfor %}";
  refused(
      "{% set r = range(99) %}{% for i in r %}{% for j in r %}{% for k in r %}" + end + end + end,
      "steps");
  refused(loop + "abcdefgh" + end, "a text of more than");
  refused("{{ 'a' * 1000000000000 }}", "values of more than");
  refused("{{ [0] * 9223372036854775807 }}", "values of more than");
  refused("{{ 'a' | indent(1000000000) }}", "values of more than");
  refused("{% set n = namespace(s='ab') %}" + loop + "{% set n.s = n.s + n.s %}" + end,
          "values of more than");
  refused("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion");
  refused("{% set n = namespace(l=[]) %}" + loop + "{% set n.l = [n.l] %}" + end, "nested");
  refused("{% set n = namespace(l=[1]) %}" + loop + "{% set n.l = [n.l, n.l] %}" + end, "parts");
  refused("{% set n = namespace(f=1) %}" + loop +
              "{% macro f() %}{{ i }}{% endmacro %}{% set n.f = [n.f, f] %}" + end,
          "nested");
  refused("{{ 9223372036854775807 + 1 }}", "64 bits");
  const auto nest = [](const std::string& open, const std::string& close) {
    std::string text;
    for (int i = 0; i < 10'000; ++i) text += open;
    for (int i = 0; i < 10'000; ++i) text += close;
    return text;
  };
  refused("{{ " + nest("(", ")") + " }}", "nested");
  refused("{{ " + nest("[", "]") + " }}", "nested");
  refused("{{ 1" + nest("+1", "") + " }}", "nested");
  refused("{{ x" + nest(".x", "") + " }}", "nested");
  refused("{{ x" + nest("|upper", "") + " }}", "nested");
  refused("{{ " + nest("not ", "") + " 1 }}", "nested");
  refused(nest("{% if 1 %}", "{% endif %}"), "nested");
}

TEST_CASE("work on long texts takes steps, and memory is counted before it is taken", "[jinja]") {
  const auto refused = [](const std::string& source, const std::string& words,
                          const RenderLimits& limits = kSmall) {
    INFO(source);
    CHECK(error_of("{% set t = 'a' * 400000 %}" + source, limits).find(words) != std::string::npos);
  };
  refused("{% set u = t + '' %}{% for i in range(99) %}{{ t == u }}{% endfor %}", "steps");
  refused("{% set u = t + '' %}{% for i in range(99) %}{{ [t] == [u] }}{% endfor %}", "steps");
  refused("{% set u = t + '' %}{% for i in range(99) %}{{ t <= u }}{% endfor %}", "steps");
  refused("{% set s = 'b' * 9999 + 'a' %}{{ ('a' * 9999).strip(s) }}", "steps");
  for (const std::string search :
       {"t.find(s)", "t.count(s)", "t.split(s)", "s in t", "t.replace(s, '')"}) {
    refused("{% set s = 'a' * 9999 + 'b' %}{{ " + search + " }}", "steps");
  }
  refused("{{ t ~ t ~ t ~ raise_exception('too late') }}", "values of more than");
  refused("{{ ('\\n' * 70000) | indent }}", "values of more than");
  RenderLimits deep = kSmall;
  deep.depth = 800;
  refused(
      "{% macro f(n) %}{{ 'a' * 9000 }}{{ f(n - 1) if n else raise_exception('too late') }}"
      "{% endmacro %}{{ f(80) }}",
      "values of more than", deep);
  // A sigma at the end of a word has a form of its own.
  CHECK(render("{{ 'ΑΣ ΣΑΣ, Σ Σ1' | lower }}") == "ας σας, σ σ1");
  CHECK(render("{{ ('Σ' * 400000) | lower | length }}") == "400000");
}

TEST_CASE("a namespace may collect a long list item by item", "[jinja]") {
  CHECK(render("{% set n = namespace(l=[]) %}{% for i in range(5000) %}{% set n.l = n.l + [i] %}"
               "{% endfor %}{{ n.l | length }}") == "5000");
}

TEST_CASE("parts of Jinja that no known chat template uses are errors by name", "[jinja]") {
  const auto refused = [](const std::string& source, const std::string& words) {
    INFO(source);
    CHECK(error_of(source).find(words) != std::string::npos);
  };
  for (const std::string filter :
       {"format", "center", "truncate", "groupby", "unique", "round", "reverse", "escape", "e"}) {
    refused("{{ 'a' | " + filter + " }}", "No filter named '" + filter + "'");
  }
  for (const std::string test :
       {"lower", "callable", "odd", "even", "divisibleby", "filter", "test"}) {
    refused("{{ 'a' is " + test + " }}", "No test named '" + test + "'");
  }
  for (const std::string function : {"cycler", "joiner", "dict"}) {
    refused("{{ " + function + "('a') }}", "'" + function + "' is undefined");
  }
  for (const std::string method :
       {"ljust", "zfill", "isalpha", "partition", "rsplit", "rfind", "splitlines", "join"}) {
    refused("{{ 'a'." + method + "(2) }}", "'str object' has no attribute '" + method + "'");
  }
  refused("{{ '%d' % 1 }}", "texts have no %");
  for (const std::string field : {"{0}", "{x}", "{:>3}", "{!r}", "{", "}"}) {
    refused("{{ '" + field + "'.format(1, x=2) }}", "format of texts has only {} here");
  }
  refused("{% block a %}{% endblock %}", "unknown tag 'block'");
  refused("{% print 1 %}", "unknown tag 'print'");
  refused("{% with a = 1 %}{% endwith %}", "unknown tag 'with'");
  refused("a\n{% raw %}{{ x }}{% endraw %}", "line 2: Encountered unknown tag 'raw'");
  for (const std::string variable : {"revindex", "revindex0", "cycle", "changed", "depth"}) {
    refused("{% for i in [1] %}{{ loop." + variable + " }}{% endfor %}",
            "'loop." + variable + "' is not supported");
  }
  refused("{% for i in [1, 2] if i > 1 %}{{ loop.length }}{% endfor %}",
          "'loop.length' of a loop with 'if' is not supported");
  for (const std::string op : {"/", "//", "**"}) {
    refused("\n{{ 1 " + op + " 2 }}", "line 2: '" + op + "' is not supported");
  }
  refused("{{ +1 }}", "unexpected '+'");
  refused("{{ 1.5 % 2 }}", "'%' of floats is not supported");
  refused("{{ 1 < 2 < 3 }}", "comparisons in a row (a < b < c) are not supported");
  for (const std::string number : {"1_000", "0x1F", "1e3", "0b1", "1.5e3"}) {
    refused("{{ " + number + " }}", "numbers are written as 12 or 1.5, and not as ");
  }
  refused("{{ 007 }}", "a number begins with 0");
  for (const std::string number : {"1_000", " -1_0.5 "}) {
    refused("{{ '" + number + "'|float }}", "the number '");
    refused("{{ '" + number + "'|int }}", "' is not supported");
  }
  refused("{{ '0xff'|int(0, 16) }}", "int() takes 1 arguments but 2 were given");
  for (const std::string escape : {"\\101", "\\N{BULLET}", "\\é"}) {
    refused("{{ '" + escape + "' }}", "' in a text is not supported");
  }
  refused("{{ range(*[3]) }}", "'*' before an argument is not supported");
  refused("{{ range(**{}) }}", "'**' before an argument is not supported");
  for (const std::string rest : {"kwargs", "varargs"}) {
    refused("{% macro f() %}{{ " + rest + " }}{% endmacro %}",
            "'" + rest + "' of macros is not supported");
  }
  refused("{% macro f() %}{% endmacro %}{{ f.name }}", "'name' of macros is not supported");
  refused("{{ namespace({'a': 1}) }}", "namespace() takes named arguments alone");
  refused("{{ [{'a': 1}] | sort(attribute='a,b') }}", "several attributes is not supported");
  refused("{{ {}[1, 2] }}", "expected token ']'");
  refused("{% for i in [1] recursive %}{% endfor %}", "recursive");
}

TEST_CASE("a title's words begin behind what has no case", "[jinja]") {
  // str.title() of Python 3.11. The first has a letter that is upper case and maps to nothing.
  CHECK(render("{{ '𝔘ﬁ ﬁa'.title() }}") == "𝔘ﬁ Fia");
  CHECK(render("{{ 'a\ufffdb'.title() }}") == "A\ufffdB");
  CHECK(render("{{ 'ªa ʰa ⓐa Ⅷa 🅰a 1a'.title() }}") == "ªa ʰa Ⓐa Ⅷa 🅰a 1A");
}

TEST_CASE("a strict template refuses to print what is undefined", "[jinja]") {
  CHECK(render("a{{ x }}b{{ x ~ 'c' }}") == "abc");
  const RenderLimits strict{.strict = true};
  CHECK_THAT(error_of("a{{ x }}", strict), ContainsSubstring("'x' is undefined"));
  CHECK_THAT(error_of("{{ x ~ 'c' }}", strict), ContainsSubstring("'x' is undefined"));
  CHECK(render("{{ x if x is defined else 'd' }}", {}, strict) == "d");
}

TEST_CASE("an error says whether the template uses a variable that nobody has set", "[jinja]") {
  const auto names_nothing = [](const std::string& source) {
    try {
      render(source, {}, {.strict = true});
    } catch (const TemplateError& error) {
      return error.names_nothing();
    }
    FAIL("no error: " << source);
    return false;
  };
  for (const char* source : {"{{ x }}", "{{ x.y }}", "{{ x() }}", "{{ 1 + x }}",
                             "{% for i in [1] %}\n{{ x }}{% endfor %}",
                             "{% macro f() %}{{ x }}{% endmacro %}{{ f() }}"}) {
    INFO(source);
    CHECK(names_nothing(source));
  }
  for (const char* source :
       {"{{ 'a'.b }}", "{{ [][0] }}", "{{ raise_exception(\"'x' is undefined\") }}", "{{ 1 % 0 }}",
        "{{ ('a' if false) }}"}) {
    INFO(source);
    CHECK_FALSE(names_nothing(source));
  }
}

TEST_CASE("namespaces, macros and loops that hold each other are freed", "[jinja]") {
  // Leaks are found by the sanitizers.
  CHECK(render("{% set n = namespace() %}{% set n.n = n %}{% macro f() %}{{ n }}{% endmacro %}"
               "{% set n.f = f %}{% for i in [1, 2] %}{% set n.l = loop %}{% endfor %}"
               "{{ n.l.index }}{{ n.f is defined }}") == "2True");
}

TEST_CASE("a time is written as strftime does", "[jinja]") {
  const std::string year = render("{{ strftime_now('%Y') }}");
  CHECK(year.size() == 4);
  CHECK(render("{{ strftime_now('a%%') }}") == "a%");
}
