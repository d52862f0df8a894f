#include "tapegrad/run/models/json_mask.h"

#include <algorithm>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/run/models/internal/call_mask.h"

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
    : tokenizer_(tokenizer),
      tokens_(std::make_shared<const data::TokenTrie>(tokenizer)),
      most_terms_(most_terms) {}

data::GrammarLimits JsonMasks::limits() const {
  return {.most_terms = most_terms_, .alphabet = tokens_->single_bytes()};
}

JsonMasks::Made JsonMasks::of_grammar(const std::shared_ptr<const data::Grammar>& grammar) const {
  auto tables = std::make_shared<const data::VocabularyMask>(tokens_, grammar);
  return {std::make_shared<const JsonMask>(tables), tables};
}

std::shared_ptr<const nn::TokenMask> JsonMasks::of_schema(std::string_view schema_json) {
  return of(fmt::format("schema {}", schema_json),
            [&] { return of_grammar(data::compile_schema(schema_json, limits())); });
}

std::shared_ptr<const nn::TokenMask> JsonMasks::of_object() {
  return of("object", [&] { return of_grammar(data::json_object_grammar(limits())); });
}

std::shared_ptr<const nn::TokenMask> JsonMasks::of_calls(const CallRules& rules) {
  const data::CallFormat& format = rules.format;
  Json key = {format.name,      static_cast<int>(format.body),
              format.begin,     format.end,
              format.between,   format.quote,
              format.before,    format.arguments_key,
              rules.several,    rules.required,
              rules.free_until, rules.ends,
              rules.free_from};
  for (const auto& [name, parameters] : rules.functions) {
    key.push_back(name);
    key.push_back(parameters);
  }
  return of("calls " + json_text(key), [&]() -> Made {
    auto [mask, tables] = call_mask(rules, tokenizer_, tokens_, most_terms_);
    return {std::move(mask), std::move(tables)};
  });
}

// A schema is compiled without the lock: others need not wait for it.
std::shared_ptr<const nn::TokenMask> JsonMasks::of(const std::string& key,
                                                   const std::function<Made()>& make) {
  const auto find = [&]() -> std::shared_ptr<const nn::TokenMask> {
    const auto known = std::ranges::find(kept_, key, &Kept::key);
    if (known == kept_.end()) return nullptr;
    kept_.splice(kept_.begin(), kept_, known);
    return kept_.front().made.mask;
  };
  {
    const std::scoped_lock lock(mutex_);
    if (auto known = find()) return known;
  }
  Made made = make();
  const std::scoped_lock lock(mutex_);
  if (auto known = find()) return known;
  kept_.push_front({key, std::move(made)});
  drop_old();
  return kept_.front().made.mask;
}

// The memory of a schema grows with its texts.
void JsonMasks::drop_old() {
  std::size_t bytes = 0, count = 0;
  auto kept = kept_.begin();
  for (; kept != kept_.end() && count < kKept; ++kept, ++count) {
    bytes += kept->made.tables->cost().bytes;
    if (bytes > kKeptBytes && count > 0) break;
  }
  kept_.erase(kept, kept_.end());
}

}  // namespace tapegrad::run
