#pragma once

#include <exception>
#include <string>
#include <vector>

#include "tapegrad/base/json/internal/json_file.h"

namespace tapegrad::evaluation {

// What `evaluate` finds out about a model.
struct Evaluation {
  Json json;          // as --json prints it
  std::string shown;  // for people
  // What has ended it early, after that much of it; none if nothing has.
  std::exception_ptr failure = {};
};

// Several models side by side, from their JSON: a row for each, with the size of its weights, its
// rate, bits per byte and perplexity of a text or the scores of tasks.
std::string models_table(const std::vector<Json>& models);
// The same as a page that needs no other file, with a chart of each number.
std::string models_page(const std::vector<Json>& models);

}  // namespace tapegrad::evaluation
