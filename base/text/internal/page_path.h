#pragma once

#include <filesystem>

namespace tapegrad {

// Before work whose result is to be a page of HTML: Error, which begins with the option that names
// the file, if there is no folder for it, or if something else is there already.
void check_page_path(const char* option, const std::filesystem::path& file);

}  // namespace tapegrad
