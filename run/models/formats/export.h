#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/tensor/stored_type.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad::run {

// The result of an export.
struct Exported {
  std::vector<std::string_view> files;  // in the folder; none if it is one file
  // How to open it. A writer has {0} for the place as it was given, {1} for its whole path, {2} for
  // the last name of that and {3} for the folder above it.
  std::string use;
  std::string other_types = {};  // of matrices: see other_types(); may be empty
};

// A format of another program that a model can be written in.
struct ExportFormat {
  std::string_view name;                 // of --format
  std::string_view title;                // "Hugging Face's layout"
  std::vector<const StoredType*> types;  // that it can store
  // Names of files that may be in `out`, or in folders there; none if `out` is the file itself.
  // Without the last one, nothing is taken for a model.
  std::vector<std::string_view> files;
  // Writes the model. Error, before anything is written, if the format cannot express it.
  Exported (*write)(const TextModel& model, const std::filesystem::path& out,
                    const StoredType& type);
  // Of a format of LoRA adapters alone, in place of `write`.
  Exported (*write_adapters)(const OpenedModel& model, const std::filesystem::path& out) = nullptr;
  // Of an encoder–decoder; null if the format cannot express one.
  Exported (*write_translator)(const Translator& model, const std::filesystem::path& out,
                               const StoredType& type) = nullptr;
};

// Why other programs cannot open a model of this config: each format, of Hugging Face's and GGUF,
// that cannot express it, and the first reason of each. Empty if both can.
std::string export_obstacle(const nn::DecoderConfig& config);

// All that there are; the first one is the default.
const std::vector<ExportFormat>& export_formats();
// Error, naming all, if there is none of this name.
const ExportFormat& export_format(std::string_view name);
// The types that a format or another can store, in the order of the table.
std::vector<const StoredType*> export_types();

// Error if a place lies in the folder of a run or of a model of ours, however deep: what is there
// is the run's.
void check_outside_runs(const std::filesystem::path& place);

// Error if the format cannot store `type`; if a file is there already, unless `overwrite`; if `out`
// is in a run's folder.
void check_export(const ExportFormat& format, const std::filesystem::path& out,
                  const StoredType& type, bool overwrite = false);

// Writes the model to `out`. Errors: as in check_export(); the format cannot express the model.
// Then, and when writing fails, what was in `out` stays as it was.
Exported export_model(const TextModel& model, const ExportFormat& format,
                      const std::filesystem::path& out, const StoredType& type,
                      bool overwrite = false);

// The same for an encoder–decoder. Error, naming those that can, if the format has none.
Exported export_translator(const Translator& model, const ExportFormat& format,
                           const std::filesystem::path& out, const StoredType& type,
                           bool overwrite = false);

// The same for the adapters of a model, by a format that writes these. Error if it has none.
Exported export_adapters(const OpenedModel& model, const ExportFormat& format,
                         const std::filesystem::path& out, bool overwrite = false);

// Writes the adapters of a model into the folder of its run, in both forms of adapters/adapter.h.
// Returns the names of the files. Error as export_adapters().
std::vector<std::string_view> save_adapters_beside(const std::filesystem::path& folder,
                                                   const OpenedModel& model);
}  // namespace tapegrad::run
