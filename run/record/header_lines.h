#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tapegrad/autograd/gemm/product_rate.h"
#include "tapegrad/run/folder/run_folder.h"
#include "tapegrad/run/options/options.h"
#include "tapegrad/run/plan/memory_estimate.h"

namespace tapegrad::run {

// A line of the header that a run prints: "text:    corpus.txt: 18,431 tokens to train".
struct HeaderLine {
  std::string name, text;
  std::string details = {};  // a second line, for --verbose
};

// A task's words about itself, for people. Any part may be empty.
struct RunHeader {
  std::vector<HeaderLine> lines = {};  // on the model, the text and what is trained
  std::string step = {};               // the text of a step: "768 tokens"
  std::string minutes = {};            // how long the run takes: "2 minutes"
  std::string minutes_reason = {};     // how that is known, for --verbose
  std::optional<MemoryEstimate> memory = {};
  std::optional<Product> product = {};  // the largest of a block, for the line on bf16
  std::string command = {};             // the call, for sessions.jsonl
  std::string resume_command = {};      // resumes the run
  std::string use_command = {};         // uses the model
  std::string last_note = {};           // stands at the end of the run
};

// The learning rate of a run, in words and as a chart of its steps.
std::vector<std::string> schedule_lines(const OptimizerOptions& optimizer);

// The header, whose text is for everybody. `verbose` adds what people ask for who tune a run.
// `groups`: lines on groups of parameters, see group_lines.h.
std::vector<std::string> header_lines(const RunHeader& about, const OptimizerOptions& optimizer,
                                      const Progress& progress,
                                      const std::vector<std::string>& groups, bool verbose);

}  // namespace tapegrad::run
