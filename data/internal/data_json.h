#pragma once

#include <filesystem>

#include "tapegrad/data/data_folder.h"

namespace tapegrad::data {

// Writes data.json alone.
void write_data_file(const std::filesystem::path& folder, const DataInfo& info);

}  // namespace tapegrad::data
