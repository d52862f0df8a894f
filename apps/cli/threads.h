#pragma once

#include <optional>

namespace tapegrad::cli {

// What --threads asks for, if it was given. UsageError if there cannot be so many.
void use_threads(const std::optional<int>& threads);
void check_threads(const std::optional<int>& threads);

}  // namespace tapegrad::cli
