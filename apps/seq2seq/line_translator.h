#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/run/models/model.h"

namespace tapegrad::seq2seq {

struct LineOptions {
  std::string model;  // the run folder
  std::string checkpoint{run::kLast};
  std::int64_t batch_size = 64;  // lines that are translated together
  int beam = 1;
  double length_penalty = nn::TranslateOptions{}.length_penalty;
};

// Translates lines and prints each translation on a line. Gathers batch_size lines, and translates
// them together. Stops early if a signal comes.
class LineTranslator {
 public:
  // `place` is what messages call the source of the lines, before the number of the line.
  LineTranslator(const LineOptions& options, std::string place);

  // Error, naming the place and the line, if the model cannot read it.
  void add(std::string_view line);
  void add_file(const std::string& path);
  void add_stdin();
  // Translates the gathered lines and prints the translations. An empty line stays empty.
  void flush();

 private:
  std::string_view add_lines(std::string_view text);
  void add_last_line(std::string_view line);

  run::Translator model_;
  std::size_t batch_size_;
  nn::TranslateOptions options_;
  std::vector<std::vector<data::Token>> sources_;
  std::string place_;
  std::int64_t line_ = 0;  // lines so far
};

}  // namespace tapegrad::seq2seq
