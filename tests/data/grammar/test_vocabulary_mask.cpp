#include <array>
#include <limits>

#include "tapegrad/data/grammar/internal/grammar.h"
#include "tapegrad/data/grammar/vocabulary_mask.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/data/grammar/made_up_schemas.h"
#include "tapegrad/tests/data/grammar/random_text.h"
#include "tapegrad/tests/data/grammar/small_validator.h"

using namespace tapegrad;

namespace {

std::shared_ptr<const data::TokenTrie> gpt2_tokens() {
  static const auto tokens = std::make_shared<const data::TokenTrie>(data::Tokenizer::gpt2());
  return tokens;
}

// Checks the mask: all tokens whose bytes the text may go on with.
void check_mask(const data::VocabularyMask& mask,
                const std::shared_ptr<const data::Grammar>& grammar,
                data::VocabularyMask::Position position) {
  const data::TokenTrie& tokens = *gpt2_tokens();
  INFO(position.text);
  const auto allowed = mask.allowed(position);
  data::ByteTerms terms = grammar->terms;
  terms.allow_more(1'000'000);
  const data::Term state = terms.after(grammar->start, position.text);
  REQUIRE(state != data::ByteTerms::kNothing);
  std::int64_t count = terms.may_end(state) ? 1 : 0;
  CHECK(allowed->has(tokens.ends()[0]) == terms.may_end(state));
  for (data::Token token = 0; token < tokens.vocab_size(); ++token) {
    const std::string_view bytes = tokens.bytes_of(token);
    if (bytes.empty()) continue;
    const bool right = terms.after(state, bytes) != data::ByteTerms::kNothing;
    count += right ? 1 : 0;
    if (allowed->has(token) != right) FAIL_CHECK("token " << token << ": " << bytes);
  }
  CHECK(allowed->size() == count);
}

}  // namespace

TEST_CASE("a mask has exactly the tokens that may follow", "[vocabulary_mask]") {
  const std::string schema = R"({"type": "object", "properties": {
      "short": {"type": "string", "minLength": 2, "maxLength": 9},
      "any": {"type": "string"}, "code": {"type": "string", "pattern": "^[A-Z]{2}-\\d+$"},
      "n": {"type": "array", "items": {"type": "integer", "maximum": 99}, "maxItems": 40}},
      "required": ["any"], "additionalProperties": {"type": "boolean"}})";
  const auto grammar = data::compile_schema(schema);
  const data::VocabularyMask mask(gpt2_tokens(), grammar);
  for (const std::string text :
       {"", "{", "{\"", "{\"short\":", "{\"short\":\"a", "{\"short\":\"abcde",
        "{\"short\": \"abcdefghi", "{\"any\": \"x", "{\"any\": \"\\", "{\"any\": \"\\ud83d",
        "{\"any\": \"\xE2\x82", "{\"any\":\"\"", "{\"any\":\"\",\"code\": \"A",
        "{\"any\":\"\",\"code\": \"AB-1", "{\"any\":\"\",\"n\":[1, -2", "{\"any\":\"\", \"x",
        "{\"any\":\"\"}"}) {
    check_mask(mask, grammar, {.text = text});
  }
}

TEST_CASE("tokens may begin and end anywhere in a text, and others are refused",
          "[vocabulary_mask]") {
  const auto tokenizer = data::Tokenizer::gpt2();
  const data::VocabularyMask mask(
      gpt2_tokens(), data::compile_schema(R"({"properties": {"name": {"type": "string"}}})"));
  data::VocabularyMask::Position position;
  for (const data::Token token : tokenizer.encode("{\"name\": \"Zo\xC3\xAB \xF0\x9F\x98\x80\"}")) {
    CHECK(mask.allowed(position)->has(token));
    CHECK(!mask.complete(position));
    mask.accept(position, token);
  }
  CHECK(mask.complete(position));
  // Nothing but the end: <|endoftext|> is no text, wherever it stands.
  const data::Token end = *tokenizer.end_of_text();
  CHECK(mask.allowed(position)->size() == 1);
  CHECK(mask.allowed(position)->has(end));
  CHECK_THROWS_WITH(mask.accept(position, 0), ContainsSubstring("may not follow"));
  mask.accept(position, end);
  CHECK(mask.allowed(position)->size() == 0);
  data::VocabularyMask::Position begin;
  CHECK(!mask.allowed(begin)->has(end));
  CHECK_THROWS_WITH(mask.accept(begin, end), ContainsSubstring("may not follow"));
}

TEST_CASE("a set of tokens keeps their logits alone", "[vocabulary_mask]") {
  for (const std::size_t every : {std::size_t{2}, std::size_t{200}}) {  // many, and few
    std::vector<std::uint64_t> bits(16);
    std::size_t count = 0;
    for (std::size_t i = 0; i < 1000; i += every, ++count)
      bits[i / 64] |= std::uint64_t{1} << i % 64;
    const data::TokenSet set(bits, count);
    CHECK(set.size() == static_cast<std::int64_t>(count));
    std::vector<float> logits(1100, 1.5F);  // a model may have more rows than there are tokens
    set.keep_only(logits);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const bool kept = i < 1000 && i % every == 0;
      CHECK(set.has(static_cast<data::Token>(i)) == kept);
      CHECK(logits[i] == (kept ? 1.5F : -std::numeric_limits<float>::infinity()));
    }
  }
}

TEST_CASE("random texts under the masks of made-up schemas fit them", "[vocabulary_mask]") {
  testing::MadeUpSchemas schemas(7);
  Rng rng(8);
  int made = 0;
  while (made < 40) {
    const Json schema = schemas.next();
    std::shared_ptr<const data::Grammar> grammar;
    try {
      grammar = data::compile_schema(json_text(schema), {.depth = 4});
    } catch (const Error& error) {
      CHECK_THAT(error.what(), ContainsSubstring("no text fits"));
      continue;
    }
    ++made;
    INFO(json_text(schema));
    const data::VocabularyMask mask(gpt2_tokens(), grammar);
    const auto text = testing::random_text(*gpt2_tokens(), mask, rng);
    REQUIRE(text);
    INFO(*text);
    // A name may come twice among those that are not listed: the last one counts.
    CHECK(testing::SmallValidator(schema).fits(Json::parse(*text)));
  }
}

TEST_CASE("tables that are full begin anew, and texts go on", "[vocabulary_mask]") {
  // Each character counts, so each place of a text is a term of its own.
  const data::VocabularyMask mask(gpt2_tokens(), data::compile_schema(R"({"properties": {
      "a": {"type": "string", "maxLength": 300000}, "b": {"type": "string", "maxLength": 300001},
      "c": {"type": "string", "maxLength": 300002}}})"));
  const auto tokenizer = data::Tokenizer::gpt2();
  const data::Token letter = tokenizer.encode("x")[0], quote = tokenizer.encode("\"")[0];
  std::vector<data::VocabularyMask::Position> positions(3);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    for (const data::Token token :
         tokenizer.encode(std::array{"{\"a\":\"", "{\"b\":\"", "{\"c\":\""}[i])) {
      mask.accept(positions[i], token);
    }
    for (int n = 0; n < 150'000; ++n) mask.accept(positions[i], letter);
  }
  CHECK(positions[2].age > positions[0].age);
  CHECK(mask.allowed(positions[0])->has(quote));
  CHECK(positions[0].age == positions[2].age);
  CHECK(positions[0].text.size() == 150'006);
  CHECK(mask.cost().bytes < std::size_t{150} << 20);
}
