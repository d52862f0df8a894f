#include "tapegrad/run/models/json_mask.h"

#include <algorithm>
#include <utility>

#include "tapegrad/base/error.h"

namespace tapegrad::run {
namespace {

// One text. What clones share is locked by VocabularyMask.
class JsonMask : public nn::TokenMask {
 public:
  explicit JsonMask(std::shared_ptr<const data::VocabularyMask> mask) : mask_(std::move(mask)) {}

  void allow(std::span<float> logits) override {
    const auto tokens = mask_->allowed(position_);
    check(tokens->size() > 0 || mask_->complete(position_),
          "no token can follow this part of a JSON text: '{}'", position_.text);
    tokens->keep_only(logits);
  }
  void accept(std::int32_t token) override { mask_->accept(position_, token); }
  std::unique_ptr<nn::TokenMask> clone() const override {
    return std::make_unique<JsonMask>(*this);
  }

 private:
  std::shared_ptr<const data::VocabularyMask> mask_;
  data::VocabularyMask::Position position_;
};

}  // namespace

JsonMasks::JsonMasks(const data::Tokenizer& tokenizer, std::size_t most_terms)
    : tokens_(std::make_shared<const data::TokenTrie>(tokenizer)), most_terms_(most_terms) {}

std::shared_ptr<const nn::TokenMask> JsonMasks::of_schema(std::string_view schema_json) {
  return of(std::string(schema_json));
}

std::shared_ptr<const nn::TokenMask> JsonMasks::of_object() { return of(std::nullopt); }

// A schema is compiled without the lock: others need not wait for it.
std::shared_ptr<const nn::TokenMask> JsonMasks::of(const std::optional<std::string>& schema) {
  const auto find = [&]() -> std::shared_ptr<const nn::TokenMask> {
    const auto known = std::ranges::find(kept_, schema, &Kept::schema);
    if (known == kept_.end()) return nullptr;
    kept_.splice(kept_.begin(), kept_, known);
    return std::make_shared<const JsonMask>(kept_.front().mask);
  };
  {
    const std::scoped_lock lock(mutex_);
    if (auto known = find()) return known;
  }
  const data::GrammarLimits limits{.most_terms = most_terms_, .alphabet = tokens_->single_bytes()};
  const auto grammar =
      schema ? data::compile_schema(*schema, limits) : data::json_object_grammar(limits);
  auto mask = std::make_shared<const data::VocabularyMask>(tokens_, grammar);
  const std::scoped_lock lock(mutex_);
  if (auto known = find()) return known;
  kept_.push_front({schema, std::move(mask)});
  drop_old();
  return std::make_shared<const JsonMask>(kept_.front().mask);
}

// The memory of a schema grows with its texts.
void JsonMasks::drop_old() {
  std::size_t bytes = 0, count = 0;
  auto kept = kept_.begin();
  for (; kept != kept_.end() && count < kKept; ++kept, ++count) {
    bytes += kept->mask->cost().bytes;
    if (bytes > kKeptBytes && count > 0) break;
  }
  kept_.erase(kept, kept_.end());
}

}  // namespace tapegrad::run
