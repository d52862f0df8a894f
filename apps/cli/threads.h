#pragma once

#include <optional>

namespace tapegrad::cli {

// Sets the number of threads to that of --threads, if it was given. UsageError if it is too large.
void use_threads(const std::optional<int>& threads);
void check_threads(const std::optional<int>& threads);

}  // namespace tapegrad::cli
