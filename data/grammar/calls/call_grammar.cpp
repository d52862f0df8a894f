#include "tapegrad/data/grammar/calls/internal/call_grammar.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/internal/spaces.h"
#include "tapegrad/data/grammar/internal/make_grammar.h"
#include "tapegrad/data/grammar/schema/internal/schema_terms.h"

namespace tapegrad::data {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;
constexpr std::size_t kMostMarks = 0x100 - kFirstAdded;

Notation notation_of(CallBody body) {
  return body == CallBody::python  ? Notation::python
         : body == CallBody::gemma ? Notation::gemma
                                   : Notation::json;
}

bool has_quoted_names(CallBody body) { return body == CallBody::object || body == CallBody::list; }

bool is_list(CallBody body) { return body == CallBody::list || body == CallBody::python; }

void check_functions(const CallFormat& format, std::span<const CallFunction> functions) {
  check(!functions.empty(), "[call_grammar] there is no function to call");
  check(functions.size() <= kMostFunctions,
        "[call_grammar] there are {} functions; {} are the most", functions.size(), kMostFunctions);
  std::set<std::string_view> names;
  std::size_t bytes = 0;
  for (const CallFunction& function : functions) {
    const std::string& name = function.name;
    check(!name.empty(), "[call_grammar] a function has no name");
    check(names.insert(name).second, "[call_grammar] two functions have the name \"{}\"", name);
    check(has_quoted_names(format.body) || is_function_name(name),
          "[call_grammar] the name \"{}\" cannot be written in calls of the format {}: give the "
          "function one of up to 64 letters, digits and _-.",
          name, format.name);
    bytes += name.size() + function.parameters.size();
  }
  check(bytes <= kMostBytes, "[call_grammar] the functions have {} bytes; {} are the most", bytes,
        kMostBytes);
}

// The terms of one format's calls.
class CallTerms {
 public:
  CallTerms(const CallFormat& format, const CallMarks& marks, const GrammarLimits& limits,
            ByteTerms& terms)
      : format_(format),
        marks_(marks),
        limits_(limits),
        terms_(terms),
        json_(terms, {notation_of(format.body), format.quote, mark(format.quote)}) {}

  Term calls(std::span<const CallFunction> functions, bool several);
  Term plain_char() const { return json_.plain_char(); }

 private:
  Term mark(std::string_view text);
  Term arguments(const CallFunction& function);
  Term call(std::span<const CallFunction> functions);
  Term marked(Term body);

  const CallFormat& format_;
  const CallMarks& marks_;
  const GrammarLimits& limits_;
  ByteTerms& terms_;
  JsonTexts json_;
  PatternWork work_;
};

// By its characters and the added tokens of which it is made.
Term CallTerms::mark(std::string_view text) {
  std::vector<Term> behind(text.size() + 1);  // what follows each place
  behind[text.size()] = ByteTerms::kEmpty;
  for (std::size_t i = text.size(); i-- > 0;) {
    std::vector<Term> ways = {
        terms_.sequence(terms_.byte(static_cast<std::uint8_t>(text[i])), behind[i + 1])};
    for (const MarkToken& known : marks_.tokens) {
      if (!text.substr(i).starts_with(known.text)) continue;
      ways.push_back(terms_.sequence(terms_.byte(known.added.byte), behind[i + known.text.size()]));
    }
    behind[i] = terms_.either(std::move(ways));
  }
  return behind[0];
}

Term CallTerms::arguments(const CallFunction& function) {
  try {
    const Json schema =
        function.parameters.empty() ? Json::object() : read_schema(function.parameters);
    const Term term = SchemaTerms(schema, terms_, json_, limits_, work_).whole_arguments();
    check(term != ByteTerms::kNothing, "no object fits them{}",
          limits_.alphabet.all() ? "" : " with the bytes that the vocabulary has");
    return term;
  } catch (const TermsFull&) {
    throw;
  } catch (const Error& error) {
    std::string_view why = error.what();
    const std::string_view op = "[json_schema] ";
    if (why.starts_with(op)) why.remove_prefix(op.size());
    fail("[call_grammar] the parameters of the function \"{}\": {}", function.name, why);
  }
}

Term CallTerms::call(std::span<const CallFunction> functions) {
  const bool quoted = has_quoted_names(format_.body);
  Term behind_name = ByteTerms::kEmpty;
  if (quoted) {
    const Term key = terms_.text(json_text(Json(std::string(format_.arguments_key))));
    behind_name = terms_.sequence({json_.comma(), json_.entry(key, ByteTerms::kEmpty)});
  }
  if (format_.body == CallBody::name_then_object) behind_name = mark(format_.between);
  std::vector<std::string> names;
  for (const CallFunction& function : functions) {
    names.push_back(quoted ? json_text(Json(function.name)) : function.name);
  }
  std::vector<ByteTerms::Followed> ways;
  for (std::size_t i = 0; i < names.size(); ++i) {
    ways.push_back({names[i], terms_.sequence(behind_name, arguments(functions[i]))});
  }
  const Term any = terms_.texts(std::move(ways));
  if (quoted) return json_.object(json_.entry(terms_.text("\"name\""), any), false);
  return format_.body == CallBody::gemma ? terms_.sequence(terms_.text("call:"), any) : any;
}

// With its marks.
Term CallTerms::marked(Term body) {
  const bool spaced = has_quoted_names(format_.body) || is_list(format_.body);
  const Term space = spaced ? json_.space() : ByteTerms::kEmpty;
  const std::string_view begin = without_space(format_.begin), end = without_space(format_.end);
  if (!begin.empty()) body = terms_.sequence({mark(begin), space, body});
  return end.empty() || marks_.end_ends_text ? body : terms_.sequence({body, space, mark(end)});
}

Term CallTerms::calls(std::span<const CallFunction> functions, bool several) {
  Term one = call(functions), more = ByteTerms::kEmpty;
  if (is_list(format_.body)) {
    one = json_.brackets('[', json_.list(one, 1, several ? ByteTerms::kEndless : 1), ']', false);
  }
  one = marked(one);
  const bool marks_between = !format_.begin.empty() && !marks_.end_ends_text;
  if (several && marks_between && !is_list(format_.body)) {
    more = terms_.repeat(terms_.sequence(json_.space(), one), 0, ByteTerms::kEndless);
  }
  // Models leave an empty line behind their reasoning.
  const Term line = terms_.optional(terms_.byte('\n'));
  const Term before = terms_.optional(mark(format_.before));
  return terms_.sequence({line, json_.space(), before, one, more});
}

}  // namespace

CallMarks call_marks(const CallFormat& format, const Tokenizer& tokenizer,
                     std::span<const Token> ends) {
  CallMarks marks;
  const std::string_view texts[] = {format.begin, format.end, format.between, format.quote,
                                    format.before};
  for (Token token = 0; token < tokenizer.vocab_size(); ++token) {
    if (!tokenizer.is_added(token)) continue;
    const std::string text = tokenizer.token_bytes(token);
    if (std::ranges::find(ends, token) != ends.end()) {
      marks.end_ends_text |= !text.empty() && text == without_space(format.end);
      continue;
    }
    const auto has = [&](std::string_view mark) {
      return mark.find(text) != std::string_view::npos;
    };
    if (!text.empty() && std::ranges::any_of(texts, has))
      marks.tokens.push_back({text, {token, 0}});
  }
  auto& tokens = marks.tokens;
  std::ranges::stable_sort(tokens, std::greater(),
                           [](const auto& mark) { return mark.text.size(); });
  tokens.resize(std::min(tokens.size(), kMostMarks));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i].added.byte = static_cast<std::uint8_t>(kFirstAdded + i);
  }
  return marks;
}

std::shared_ptr<const Grammar> call_grammar(const CallFormat& format,
                                            std::span<const CallFunction> functions, bool several,
                                            const CallMarks& marks, const GrammarLimits& limits) {
  check_functions(format, functions);
  check(format.body != CallBody::gemma || !format.quote.empty(),
        "[call_grammar] the format {} has no quote", format.name);
  return make_grammar(limits, "the set of functions", [&](ByteTerms& terms) -> GrammarStart {
    CallTerms calls(format, marks, limits, terms);
    const Term start = calls.calls(functions, several);
    return {start, calls.plain_char()};
  });
}

}  // namespace tapegrad::data
