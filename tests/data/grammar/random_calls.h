#pragma once

#include <cmath>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/base/random.h"
#include "tapegrad/base/text/internal/spaces.h"
#include "tapegrad/data/grammar/calls/internal/call_grammar.h"
#include "tapegrad/nn/generation/pick_token.h"
#include "tapegrad/tests/data/grammar/made_up_schemas.h"

namespace tapegrad::testing {

// The parameters of a made-up function.
inline std::string made_up_parameters(MadeUpSchemas& schemas) {
  const Json root = schemas.next();
  if (root.is_object() && root.contains("type") && root["type"] == "object") return json_text(root);
  return json_text({{"type", "object"},
                    {"properties", {{"value", root}}},
                    {"required", {"value"}},
                    {"additionalProperties", false}});
}

// Draws tokens of an answer among those that a mask allows, whichever they are.
class RandomAnswer {
 public:
  RandomAnswer(const data::Tokenizer& tokenizer, const data::CallFormat& format,
               const nn::TokenMask& mask, Rng& rng)
      : tokenizer_(tokenizer), mask_(mask.clone()), rng_(rng), ends_(tokenizer.ends()) {
    for (const std::string_view text :
         {format.quote.empty() ? "\"" : format.quote, std::string_view("="), std::string_view(":"),
          std::string_view("1"), std::string_view("}"), std::string_view("]"),
          std::string_view(")"), without_space(format.end)}) {
      if (!text.empty()) closings_.emplace_back(text);
    }
  }

  const nn::Tokens& tokens() const { return tokens_; }
  std::string text() const { return tokenizer_.decode(tokens_); }

  bool allows(data::Token token) {
    look();
    return logits_[static_cast<std::size_t>(token)] == 0;
  }
  bool may_end() { return allows(ends_[0]); }
  // Errors of the mask.
  void add(data::Token token) {
    mask_->accept(token);
    tokens_.push_back(token);
  }
  // False if the mask does not allow one of these.
  bool add_text(std::string_view text, bool special) {
    for (const data::Token token : tokenizer_.encode(text, special)) {
      if (!allows(token)) return false;
      add(token);
    }
    return true;
  }

  // False if nothing is allowed, or the text comes to no end. After 60 tokens, what closes strings
  // and brackets is drawn half of the time.
  bool draw_to_end() {
    constexpr int kFree = 60, kMost = 5000;
    for (int i = 0; i < kMost; ++i) {
      if (i >= kFree && may_end()) return true;
      const auto token = next(i >= kFree && rng_.randint(2) == 0);
      if (!token) return false;
      if (*token == ends_[0]) return true;
      add(*token);
    }
    return false;
  }

 private:
  void look() {
    logits_.assign(static_cast<std::size_t>(tokenizer_.vocab_size()), 0.F);
    mask_->allow(logits_);
  }

  std::optional<data::Token> next(bool closes) {
    look();
    if (!begun_.empty()) {
      const data::Token token = begun_.front();
      begun_.pop_front();
      if (logits_[static_cast<std::size_t>(token)] == 0) return token;
      begun_.clear();
    }
    for (const std::string& closing : closings_) {
      if (!closes) break;
      const auto tokens = tokenizer_.encode(closing, rng_.randint(2) == 0);
      if (logits_[static_cast<std::size_t>(tokens[0])] != 0) continue;
      begun_.assign(tokens.begin() + 1, tokens.end());
      return tokens[0];
    }
    nn::Tokens allowed;
    for (data::Token t = 0; t < std::ssize(logits_); ++t) {
      if (logits_[static_cast<std::size_t>(t)] == 0) allowed.push_back(t);
    }
    if (allowed.empty()) return std::nullopt;
    return allowed[static_cast<std::size_t>(rng_.randint(std::ssize(allowed)))];
  }

  const data::Tokenizer tokenizer_;
  std::unique_ptr<nn::TokenMask> mask_;
  Rng& rng_;
  nn::Tokens ends_, tokens_;
  std::vector<std::string> closings_;
  std::deque<data::Token> begun_;
  std::vector<float> logits_;
};

}  // namespace tapegrad::testing
