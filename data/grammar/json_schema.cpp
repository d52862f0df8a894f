#include "tapegrad/data/grammar/json_schema.h"

#include "tapegrad/data/grammar/internal/make_grammar.h"
#include "tapegrad/data/grammar/schema/internal/schema_terms.h"

namespace tapegrad::data {
namespace {

constexpr std::size_t kMostSchemaBytes = std::size_t{1} << 20;
constexpr int kMostSchemaDepth = 64;
constexpr std::size_t kMostFollowed = 1'000'000;  // terms that one text may add

}  // namespace

Json read_schema(std::string_view schema_json) {
  check(schema_json.size() <= kMostSchemaBytes,
        "[json_schema] the schema has {} bytes; {} are the most", schema_json.size(),
        kMostSchemaBytes);
  try {
    return parse_json<Json>(schema_json, kMostSchemaDepth);
  } catch (const Error& error) {
    fail("[json_schema] {}", error.what());
  }
}

std::shared_ptr<const Grammar> compile_schema(std::string_view schema_json,
                                              const GrammarLimits& limits) {
  const Json root = read_schema(schema_json);
  return make_grammar(limits, "the schema", [&](ByteTerms& terms) -> GrammarStart {
    JsonTexts json(terms);
    PatternWork work;
    const Term start = SchemaTerms(root, terms, json, limits, work).whole_schema();
    return {start, json.plain_char()};
  });
}

std::shared_ptr<const Grammar> json_object_grammar(const GrammarLimits& limits) {
  return make_grammar(limits, "the schema", [&](ByteTerms& terms) -> GrammarStart {
    JsonTexts json(terms);
    return {json.any_object(limits.depth), json.plain_char()};
  });
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
