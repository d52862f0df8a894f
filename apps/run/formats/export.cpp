#include "tapegrad/run/formats/export.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "tapegrad/run/folder_calls.h"
#include "tapegrad/run/formats/gguf_model.h"
#include "tapegrad/run/formats/hf_folder.h"
#include "tapegrad/run/formats/hf_out.h"
#include "tapegrad/run/formats/llmc.h"
#include "tapegrad/run/formats/nanogpt.h"
#include "tapegrad/run/run_folder.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

// What an export that fails has made so far, which goes with it.
class NewFiles {
 public:
  NewFiles(const ExportFormat& format, const fs::path& out) {
    for (const std::string_view file : format.files) add(out / file);
    add(out);  // behind its files: removed if it is empty then
  }
  ~NewFiles() {
    std::error_code ignored;
    for (const fs::path& path : paths_) fs::remove(path, ignored);
  }
  NewFiles(const NewFiles&) = delete;
  NewFiles& operator=(const NewFiles&) = delete;
  void keep() { paths_.clear(); }

 private:
  void add(const fs::path& path) {
    if (!has_entry(path)) paths_.push_back(path);
  }
  std::vector<fs::path> paths_;
};

void check_no_run(const fs::path& folder) {
  check(!has_entry(folder / kConfigFile) || is_hf_folder(folder),
        "{} is the folder of a run: choose another", folder.string());
}

void check_place(const ExportFormat& format, const fs::path& out, bool overwrite) {
  if (format.files.empty()) {
    check(!fs::is_directory(out), "{} is a folder: --format {} writes a file", out.string(),
          format.name);
    check_no_run(out.has_parent_path() ? out.parent_path() : ".");
    check(overwrite || !has_entry(out), "{} exists already: choose another, or --overwrite",
          out.string());
    return;
  }
  check(!has_entry(out) || fs::is_directory(out), "{} is not a folder, but --format {} writes one",
        out.string(), format.name);
  check_no_run(out);
  for (const std::string_view file : format.files) {
    check(overwrite || !has_entry(out / file),
          "{} has a file {} already: choose another folder, or --overwrite", out.string(), file);
  }
}

}  // namespace

const std::vector<ExportFormat>& export_formats() {
  using enum StoredType;
  static const std::vector<ExportFormat> formats = {
      {"hf", "Hugging Face's layout", {f32, f16, bf16}, hf_files(), export_hf},
      {"gguf", "GGUF", {f32, f16, bf16, q8_0}, {}, export_gguf},
      {"llm.c", "llm.c's format", {f32, bf16}, llmc_files(), export_llmc},
      {"nanogpt", "nanoGPT's checkpoint", {f32}, nanogpt_files(), export_nanogpt},
  };
  return formats;
}

const ExportFormat& export_format(std::string_view name) {
  std::vector<std::string_view> names;
  for (const ExportFormat& format : export_formats()) {
    if (format.name == name) return format;
    names.push_back(format.name);
  }
  fail("there is no format '{}': choose {}", name, fmt::join(names, ", "));
}

Exported export_model(const TextModel& model, const ExportFormat& format, const fs::path& out,
                      StoredType type, bool overwrite) {
  std::vector<std::string_view> types;
  for (const StoredType known : format.types) types.push_back(name_of_enum(known));
  check(std::find(format.types.begin(), format.types.end(), type) != format.types.end(),
        "--format {} cannot store {}: choose {}", format.name, name_of_enum(type),
        fmt::join(types, ", "));
  check_place(format, out, overwrite);
  NewFiles files(format, out);
  Exported written = format.write(model, out, type);
  files.keep();
  return written;
}

}  // namespace tapegrad::run
