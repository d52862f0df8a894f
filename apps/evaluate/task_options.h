#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/apps/cli/command_line.h"

namespace tapegrad::evaluation {

// The options of `evaluate --task`.
struct TaskOptions {
  std::vector<std::string> names, items, fewshot_items;
  std::optional<std::string> per_item;
  std::optional<std::int64_t> num_fewshot;
  bool overwrite = false, apply_chat_template = false, fewshot_as_multiturn = false;
  bool special_in_messages = false;  // of --chat, too

  void add_to(cli::CommandLine& cli);
  // UsageError for options that do not go together.
  void check_options(const cli::CommandLine& cli, const std::vector<std::string>& paths) const;
};

}  // namespace tapegrad::evaluation
