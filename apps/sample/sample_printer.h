#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/apps/sample/made_text.h"
#include "tapegrad/apps/sample/sample_options.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/stopwatch.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad::sampling {

// Shows a piece of a text; false if nobody can see more of it.
using OnText = std::function<bool(std::string_view piece)>;

// Prints texts on stdout, and on stderr what there is to say about all of them.
class SamplePrinter {
 public:
  SamplePrinter(const run::TextModel& model, const SampleOptions& options)
      : model_(model), options_(options) {}

  // Prints at once. False if stdout is broken, or after a signal.
  static bool print(std::string_view piece);

  // Above text number `text` of several of so many prompts: which prompt and which of its samples
  // it is. Nothing if there is but one, or in JSON.
  void heading(std::size_t text, std::size_t prompts) const;
  // After a text: the end of its line, and its tokens, one on a line.
  void end_text(const std::vector<nn::NewToken>& tokens) const;
  // A text as a JSON object on a line.
  void json(const std::string& prompt, const MadeText& made,
            const std::optional<Json>& id = {}) const;
  // Says once that a text of so many tokens becomes slow, if it will.
  void note_length(std::size_t prompt_tokens, const nn::GenerateOptions& options);

  // Makes the stream's current text, and shows what may be shown of it as soon as it may.
  MadeText make(nn::TokenStream& stream, const OnText& show);
  // How fast prompts were read and texts were made, and how near that came to what memory allows.
  void rate(const nn::GenerationCost& cost) const;

 private:
  void saw_token();

  const run::TextModel& model_;
  const SampleOptions& options_;
  bool noted_ = false;
  std::int64_t tokens_ = 0;
  std::optional<double> first_token_;  // seconds
  std::optional<Stopwatch> watch_;     // from the first text on
};

// The options of texts of a model, and how many run side by side: at most SampleOptions::batch, and
// as many as half of the free memory has caches for, or one.
nn::GenerateOptions generate_options(const run::TextModel& model, const SampleOptions& options);
nn::GenerationLimits generation_limits(const run::TextModel& model, const SampleOptions& options);

}  // namespace tapegrad::sampling
