#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tapegrad/nn/generation/pick_token.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad::sampling {

// Speculative decoding: options of `sample`, `chat` and `serve`, by this table alone.
struct SpeculationOptions {
  std::int64_t lookup = 0, draft_tokens = nn::GenerateOptions{}.draft_tokens;
  std::optional<std::string> draft = {};  // where the model is that proposes

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    constexpr auto kMost = static_cast<double>(nn::kMostLookup);
    t("lookup", o.lookup,
      "speculative decoding: propose up to N tokens at a time from what the text has already, and "
      "check them in one pass: the same text, faster where it repeats itself; 0: off",
      {.least = 0, .most = kMost});
    t("draft", o.draft,
      "speculative decoding: a smaller model with the same tokens proposes --draft-tokens tokens "
      "at a time, which are checked in one pass: the same text, faster if it proposes well",
      {.value = "MODEL"});
    t("draft_tokens", o.draft_tokens, "how many tokens --draft proposes at a time",
      {.least = 1, .most = kMost});
  }

  // Error for options that exclude each other.
  void validate(bool kv_cache = true) const;
  // Makes texts propose so. `model`: the draft, or null.
  void apply(nn::GenerateOptions& options, const nn::Decoder* model = nullptr) const;
};

// The model of --draft. It is opened before the weights of the model that it proposes for are read,
// and loaded behind them, so that errors come first.
class DraftModel {
 public:
  // Opens the draft, if the options name one, for the model at `path`. Error, naming both, if their
  // tokens differ.
  void open(const SpeculationOptions& options, const run::OpenedModel& model,
            const std::string& path);
  void load();  // the weights of what is opened
  const nn::Decoder* gpt() const { return loaded_ ? &loaded_->gpt : nullptr; }

 private:
  std::optional<run::OpenedModel> opened_;
  std::optional<run::TextModel> loaded_;
};

}  // namespace tapegrad::sampling
