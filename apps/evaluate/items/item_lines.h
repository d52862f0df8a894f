#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

#include "tapegrad/apps/evaluate/items/eval_task.h"

namespace tapegrad::evaluation {

// A line of a file, as the question that it is alone.
struct ItemLine {
  Item item;
  Json doc;
};

// Calls `on_line` with each line that is not blank and its number, until it returns false.
void for_each_line(const std::filesystem::path& path,
                   const std::function<bool(std::string_view, std::int64_t)>& on_line);

// What the task makes of a line. Errors name file, line and the task's key.
ItemLine item_line(const Task& task, const std::filesystem::path& path, std::string_view text,
                   std::int64_t number);

}  // namespace tapegrad::evaluation
