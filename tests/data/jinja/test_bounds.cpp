// A template comes with a model, from anybody: whatever it does is counted. What is allocated is
// counted a second time here, by operator new.

#include <cstdlib>
#include <filesystem>
#include <map>
#include <new>
#include <span>

#include "tapegrad/base/file.h"
#include "tapegrad/data/jinja/internal/arguments.h"
#include "tapegrad/data/jinja/internal/template.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/places.h"
#include "tapegrad/tests/sanitized.h"

namespace {

thread_local std::size_t* allocated = nullptr;

}  // namespace

#if !defined(TAPEGRAD_SANITIZED)  // which have operators of their own
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (allocated != nullptr) *allocated += bytes;
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace tapegrad::data::jinja {
namespace {

constexpr std::size_t kLong = 40'000;

// The bytes that operator new gives while it lives, whether they come back or not.
class Allocated {
 public:
  Allocated() { allocated = &bytes_; }
  ~Allocated() { allocated = nullptr; }
  Allocated(const Allocated&) = delete;
  Allocated& operator=(const Allocated&) = delete;
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

struct Given {
  const char* name;
  Value value;
  std::size_t width;  // of what a function may look at, in bytes or items
};

std::vector<Given> large_values() {
  Values numbers, texts;
  auto dict = std::make_shared<Dict>();
  for (std::size_t i = 0; i < kLong / 10; ++i) {
    numbers.emplace_back(static_cast<std::int64_t>(i));
    texts.emplace_back("a");
  }
  for (std::size_t i = 0; i < 1000; ++i) dict->set(Value(std::to_string(i)), Value("b"));
  const auto text = [](std::string_view of) {
    std::string made;
    while (made.size() < kLong) made += of;
    return Value(made);
  };
  return {{"digits", text("1"), kLong},
          {"spaces", text(" "), kLong},
          {"lines", text("\n"), kLong},
          {"quotes", text("\""), kLong},
          {"path", text("a."), kLong},
          {"braces", text("{}"), kLong},
          {"sigmas", text("\u03a3"), kLong},
          {"numbers", list_of(std::move(numbers)), kLong / 10},
          {"texts", list_of(std::move(texts)), kLong / 10},
          {"dict", Value(DictRef(std::move(dict))), 1000},
          {"number", Value(std::int64_t{40'000'000}), 0}};
}

struct Cost {
  std::size_t steps = 0, bytes = 0;
};

Cost cost_of(Function function, const Value& self, const Arguments& arguments) {
  const RenderLimits limits{.steps = 200'000, .memory_bytes = 4 << 20};
  Cost cost;
  const Allocated counted;
  {
    Run run(limits);
    try {
      invoke(run, function, self, arguments);
    } catch (const TemplateError&) {  // the arguments are none of its own, or a limit
    }
    cost.steps = run.steps();
  }
  cost.bytes = counted.bytes();
  return cost;
}

void check_cost(std::string_view name, const Given& self, const Given& argument, const Cost& cost) {
  INFO(name << " of " << self.name << " with " << argument.name << ": " << cost.steps << " steps, "
            << cost.bytes << " bytes");
  CHECK(cost.steps * 256 >= self.width + argument.width);
  // What was refused was not made.
  CHECK(cost.bytes <= 64 * cost.steps + (1 << 17));
}

}  // namespace

TEST_CASE("each function of templates takes steps for what it is given, and for all bytes",
          "[jinja]") {
  const std::vector<Given> values = large_values();
  const Given nothing{"nothing", Value(), 0};
  std::size_t functions = 0;
  const auto each = [&](std::span<const NamedFunction> table, const auto& fits) {
    for (const auto& [name, function] : table) {
      ++functions;
      for (const Given& self : values) {
        if (!fits(self.value)) continue;
        check_cost(name, self, nothing, cost_of(function, self.value, {}));
        for (const Given& argument : values) {
          const Value& given = argument.value;
          check_cost(name, self, argument, cost_of(function, self.value, {.positional = {given}}));
          if (kSanitized) continue;
          cost_of(function, self.value, {.positional = {given, given}});
          const Cost named =
              cost_of(function, self.value, {.named = {{String("attribute"), given}}});
          check_cost(name, self, argument, named);
          const Cost indented =
              cost_of(function, self.value, {.named = {{String("indent"), given}}});
          check_cost(name, self, argument, indented);
        }
      }
    }
  };
  const auto any = [](const Value&) { return true; };
  for (const auto table : {text_filters(), item_filters(), selection_filters(), number_filters(),
                           value_tests(), global_functions()}) {
    each(table, any);
  }
  each(text_methods(), [](const Value& value) { return value.is_text(); });
  each(dict_methods(), [](const Value& value) { return value.dict() != nullptr; });
  CHECK(functions > 60);
}

TEST_CASE("work that a template hides in functions ends at its bounds", "[jinja]") {
  const std::string text = "{% set t = 'x' * 4000000 %}", n = "{% for i in range(100000) %}";
  std::string sets;
  for (int i = 0; i < 3000; ++i) sets += fmt::format("{{% set a{} = 1 %}}", i);
  const std::map<std::string, std::string> sources = {
      {"text to real", "{% set t = '1' * 4000000 %}" + n + "{% set y = t|float %}{% endfor %}"},
      {"text to integer", "{% set t = '1' * 4000000 %}" + n + "{% set y = t|int %}{% endfor %}"},
      {"separator", text + n + "{% set y = []|join(t) %}{% endfor %}"},
      {"long attribute", text + "{{ range(1000)|map(attribute=t)|list|length }}"},
      {"indention", text + n + "{% set y = [1]|tojson(indent=t) %}{% endfor %}"},
      {"wide indention", n + "{% set y = 1|tojson(indent=4000000) %}{% endfor %}"},
      {"undefined keys", text + n + "{% set y = {}[t] %}{% endfor %}"},
      {"undefined attributes", text + n + "{% set y = {}[[t]|first] %}{% endfor %}"},
      {"names", sets + n + "{{ missing }}{{ a2999 }}{% endfor %}"},
      {"long names", "{% set " + std::string(1 << 20, 'n') +
                         "a = 1 %}{% for i in range(100) %}{{ " + std::string(1 << 20, 'n') +
                         "b is defined }}{% endfor %}"},
      {"widest indention", "{{ 'a'|indent(9223372036854775807) }}"},
      {"widest indention of JSON", "{{ 1|tojson(indent=9223372036854775807) }}"},
      {"a search", text + n + "{{ t.find('xy') }}{% endfor %}"},
      {"an affix", text + n + "{{ t.startswith(t) }}{% endfor %}"}};
  const RenderLimits limits{.steps = 300'000, .text_bytes = 1 << 20, .memory_bytes = 32 << 20};
  for (const auto& [name, source] : sources) {
    INFO(name);
    const Template parsed(source);
    const Allocated counted;
    CHECK_THROWS_AS(parsed.render({}, limits), TemplateError);
    CHECK(counted.bytes() < 64 * limits.steps + (std::size_t{48} << 20));
  }
}

// What each of them compares, which has no bytes of its own.
TEST_CASE("functions that look at two texts take steps for all that they compare", "[jinja]") {
  const auto ends = [](const std::string& source, std::size_t steps) {
    try {
      Template(source).render({}, {.steps = steps});
    } catch (const TemplateError&) {
      return false;
    }
    return true;
  };
  const std::string texts =
      "{% set t = 'a' * 40000 %}{% set p = 'a' * 20000 ~ 'b' %}{% set b = 'b' * 40000 %}";
  // Each place of t with all of p.
  for (const std::string call :
       {"t.find(p)", "t.count(p)", "t.replace(p, '')", "t|replace(p, '')", "t.split(p)", "p in t",
        "p not in t", "b.strip(p)", "b.lstrip(p)", "b.rstrip(p)", "b|trim(p)"}) {
    INFO(call);
    CHECK_FALSE(ends(texts + "{% set y = " + call + " %}", 40'000 / 1024 * 20'000));
    // Such a text is in none that is shorter.
    const bool strips = call.find("strip") != call.npos || call.find("trim") != call.npos;
    if (!strips) CHECK(ends(texts + "{% set p = p * 2 %}{% set y = " + call + " %}", 100'000));
  }
  // The beginning, or all.
  const std::string others = "{% set u = 'a' * 39999 ~ 'b' %}{% set v = 'b' ~ 'a' * 39999 %}",
                    n = "{% for i in range(1000) %}";
  for (const std::string call : {"t == u", "t != u", "t < u", "t >= u", "t.startswith(u)",
                                 "t.endswith(v)", "t in [u]", "[t] == [u]"}) {
    INFO(call);
    CHECK_FALSE(ends(texts + others + n + "{% set y = " + call + " %}{% endfor %}",
                     1000 * (40'000 / 1024)));
  }
}

TEST_CASE("functions that take long for a letter take steps for it", "[jinja]") {
  const auto steps = [](Function function, const std::string& text, bool is_self) {
    const Cost cost = is_self ? cost_of(function, Value(text), {})
                              : cost_of(function, Value(), {.positional = {Value(text)}});
    return cost.steps;
  };
  const auto named = [](std::span<const NamedFunction> table, std::string_view name) {
    return find_in(table, name)->function;
  };
  for (const char* name : {"upper", "lower", "title", "capitalize"}) {
    INFO(name);
    CHECK(steps(named(text_methods(), name), std::string(40'000, 'a'), true) >= 10'000);
  }
  std::string conversions;
  for (int i = 0; i < 500; ++i) conversions += "%U";
  CHECK(steps(find_global("strftime_now"), conversions, false) >= 1000);
}

TEST_CASE("what is undefined keeps little of a long key", "[jinja]") {
  std::string keys;
  for (int i = 0; i < 200; ++i) keys += "{}[t],{}[[t, t]|join],";
  const Template all("{% set t = 'x' * 1000000 %}{% set l = [" + keys + "] %}{{ l|length }}");
  CHECK(all.render({}, {.memory_bytes = 8 << 20}).text == "400");
}

TEST_CASE("a template's own words are cut", "[jinja]") {
  for (const std::string source : {"{{ raise_exception('é' * 1000000) }}",
                                   "{{ [1]|map('é' * 1000000)|list }}", "{{ {}['é' * 1000].x }}"}) {
    try {
      Template(source).render({});
      FAIL("no error: " << source);
    } catch (const TemplateError& error) {
      CHECK(error.message().size() <= kMostQuoted);
      CHECK(error.message().find("é…") != std::string::npos);
    }
  }
}

TEST_CASE("an execution is ended from outside, soon", "[jinja]") {
  struct Ended {};
  const Template endless(
      "{% for i in range(99999) %}{% for j in range(99999) %}"
      "{% set t = 'abc' * 100 %}{% endfor %}{% endfor %}");
  int looks = 0;
  const RenderLimits limits{.look = [&] {
    if (++looks == 3) throw Ended();
  }};
  CHECK_THROWS_AS(endless.render({}, limits), Ended);
  const Template bytes("{% for i in range(99999) %}{% set t = 'a' * 640000 %}{% endfor %}");
  looks = 0;
  CHECK_THROWS_AS(bytes.render({}, limits), Ended);
}

// What counts itself is all that there is: see counted.h.
TEST_CASE("templates' values are made of types that count themselves", "[jinja]") {
  const std::filesystem::path room = std::filesystem::path(places::kSources) / "data/jinja";
  const std::map<std::string, std::string> ours = {{"std::string", "String"},
                                                   {"std::vector", "Vector"},
                                                   {"std::make_shared", "make_counted"},
                                                   {"std::map", "Dict"},
                                                   {"std::set", "Dict"},
                                                   {"std::deque", "Vector"},
                                                   {"std::list", "Vector"},
                                                   {"std::ostringstream", "String"}};
  // What the parser makes, and the ends of an execution.
  const auto is_outside = [](const std::string& name) {
    return name == "expressions.h" || name == "expressions.cpp" || name == "statements.h" ||
           name == "template.h" || name == "template.cpp" || name == "counted.h" ||
           name == "template_error.h";
  };
  for (const auto& folder : {room, room / "internal", room / "functions"}) {
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
      if (!file.is_regular_file() || is_outside(file.path().filename().string())) continue;
      const std::string source = read_file(file.path(), 1 << 20);
      for (const auto& [word, instead] : ours) {
        for (std::size_t at = source.find(word); at != source.npos;
             at = source.find(word, at + 1)) {
          const char behind = source[at + word.size()];
          const std::string line = source.substr(
              source.rfind('\n', at) + 1, source.find('\n', at) - source.rfind('\n', at) - 1);
          INFO(file.path().filename().string() << ": " << instead << " is counted: " << line);
          const bool is_other = behind == '_' || std::isalnum(static_cast<unsigned char>(behind));
          CHECK(is_other);
        }
      }
    }
  }
}

}  // namespace tapegrad::data::jinja
