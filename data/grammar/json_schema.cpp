#include "tapegrad/data/grammar/json_schema.h"

#include "tapegrad/data/grammar/internal/grammar.h"
#include "tapegrad/data/grammar/schema/internal/schema_terms.h"

namespace tapegrad::data {
namespace {

constexpr std::size_t kMostSchemaBytes = std::size_t{1} << 20;
constexpr int kMostSchemaDepth = 64;
constexpr std::size_t kMostFollowed = 1'000'000;  // terms that one text may add

template <class StartOf>
std::shared_ptr<const Grammar> grammar_of(const GrammarLimits& limits, const StartOf& start_of) {
  check(limits.depth >= 1 && limits.depth <= 64, "[json_schema] the depth is from 1 to 64, not {}",
        limits.depth);
  ByteTerms terms(limits.most_terms, limits.alphabet);
  try {
    JsonTexts json(terms);
    const Term start = start_of(terms, json);
    check(start != ByteTerms::kNothing, "[json_schema] no text fits the schema{}",
          limits.alphabet.all() ? "" : " with the bytes that the vocabulary has");
    return std::make_shared<const Grammar>(
        Grammar{.terms = std::move(terms), .start = start, .any_char = json.any_char()});
  } catch (const TermsFull& error) {
    fail("[json_schema] the schema is too large: {}", error.what());
  }
}

}  // namespace

std::shared_ptr<const Grammar> compile_schema(std::string_view schema_json,
                                              const GrammarLimits& limits) {
  check(schema_json.size() <= kMostSchemaBytes,
        "[json_schema] the schema has {} bytes; {} are the most", schema_json.size(),
        kMostSchemaBytes);
  Json root;
  try {
    root = parse_json<Json>(schema_json, kMostSchemaDepth);
  } catch (const Error& error) {
    fail("[json_schema] {}", error.what());
  }
  return grammar_of(limits, [&](ByteTerms& terms, JsonTexts& json) {
    return SchemaTerms(root, terms, json, limits).whole_schema();
  });
}

std::shared_ptr<const Grammar> json_object_grammar(const GrammarLimits& limits) {
  return grammar_of(limits,
                    [&](ByteTerms&, JsonTexts& json) { return json.any_object(limits.depth); });
}

struct GrammarState::Position {
  ByteTerms terms;
  Term term;
};

GrammarState::GrammarState(const std::shared_ptr<const Grammar>& grammar)
    : position_(std::make_unique<Position>(Position{grammar->terms, grammar->start})) {
  position_->terms.allow_more(kMostFollowed);
}

GrammarState::~GrammarState() = default;

bool GrammarState::accept(std::string_view bytes) {
  const Term next = position_->terms.after(position_->term, bytes);
  if (next == ByteTerms::kNothing) return false;
  position_->term = next;
  return true;
}

bool GrammarState::complete() const { return position_->terms.may_end(position_->term); }

}  // namespace tapegrad::data
