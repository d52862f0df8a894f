#include "tapegrad/run/models/formats/export.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "tapegrad/base/file.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/run/folder/internal/folder_calls.h"
#include "tapegrad/run/folder/run_folder.h"
#include "tapegrad/run/models/adapters/adapter.h"
#include "tapegrad/run/models/formats/gguf/gguf_model.h"
#include "tapegrad/run/models/formats/hf/hf_folder.h"
#include "tapegrad/run/models/formats/hf/hf_out.h"
#include "tapegrad/run/models/formats/llmc.h"
#include "tapegrad/run/models/formats/nanogpt.h"
#include "tapegrad/run/models/formats/onnx/onnx_export.h"
#include "tapegrad/run/models/formats/web_format.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

// The whole path of a place, without a / at its end. Links are followed: what is made beside it is
// in the same file system.
fs::path whole_path(const fs::path& out) {
  const fs::path path = absolute_path(out / "").lexically_normal().parent_path();
  std::error_code error;
  const fs::path followed = fs::weakly_canonical(path, error);
  return error ? path : followed;
}

// A folder beside `out`, and in it one of the same name, for files that are not complete yet.
class Workshop {
 public:
  explicit Workshop(const fs::path& out) : place_(whole_path(out)) {
    make_folder(place_.parent_path());
    root_ = make_free_folder(place_.string() + ".part");
  }
  ~Workshop() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  Workshop(const Workshop&) = delete;
  Workshop& operator=(const Workshop&) = delete;
  fs::path folder() const { return root_ / place_.filename(); }

 private:
  fs::path place_, root_;
};

// Puts complete files in the place of those of an earlier export. Until the last one is there,
// nothing is taken for a model.
void deliver(const fs::path& from, const ExportFormat& format, const fs::path& to) {
  make_folder(to);
  check_writable(to);
  for (const std::string_view file : format.files) {
    if (has_entry(from / file)) make_folder((to / file).parent_path());
  }
  remove_or_fail(to / format.files.back());
  for (const std::string_view file : format.files) {
    if (!has_entry(from / file)) remove_or_fail(to / file);
  }
  move_files(from, format.files, to);
}

void check_no_run(const fs::path& folder) {
  check(!has_entry(folder / kConfigFile) || is_hf_folder(folder),
        "{} is the folder of a run or a model: choose another", folder.string());
  check_outside_runs(folder);
}

// Formats that share files, such as config.json, would leave weights of one model beside the words
// of another.
void check_no_other_export(const ExportFormat& format, const fs::path& out) {
  const auto has = [](const ExportFormat& f, std::string_view file) {
    return std::find(f.files.begin(), f.files.end(), file) != f.files.end();
  };
  for (const ExportFormat& other : export_formats()) {
    const bool share = std::any_of(other.files.begin(), other.files.end(),
                                   [&](std::string_view file) { return has(format, file); });
    if (!share) continue;
    for (const std::string_view file : other.files) {
      check(has(format, file) || !has_entry(out / file),
            "{} has a file {}, of another --format, that would stand beside texts of this one: "
            "choose "
            "another folder",
            out.string(), file);
    }
  }
}

void check_place(const ExportFormat& format, const fs::path& out, bool overwrite) {
  if (format.files.empty()) {
    check(!is_folder(out), "{} is a folder: --format {} writes a file", out.string(), format.name);
    check_no_run(out.has_parent_path() ? out.parent_path() : ".");
    check(overwrite || !has_entry(out), "{} exists already: choose another, or --overwrite",
          out.string());
    return;
  }
  check(!has_entry(out) || is_folder(out), "{} is not a folder, but --format {} writes one",
        out.string(), format.name);
  check_no_run(out);
  for (const std::string_view file : format.files) {
    check(!is_folder(out / file), "{} is a folder", (out / file).string());
    check(overwrite || !has_entry(out / file),
          "{} has a file {} already: choose another folder, or --overwrite", out.string(), file);
  }
  check_no_other_export(format, out);
}

// The types to which weights can be rounded, of those that a format has.
std::vector<const StoredType*> types_written(bool (*has)(const StoredType&)) {
  return stored_types_where([&](const StoredType& t) { return t.from_f32 != nullptr && has(t); });
}

Adapter adapter_of_model(const OpenedModel& model) {
  check(model.adapters != nullptr, "{}: the model has no adapters: there is nothing to write",
        model.weights->name());
  return {model.tuning.adapters(), model.adapters};
}

Exported export_peft(const OpenedModel& model, const fs::path& out) {
  write_peft(out, adapter_of_model(model), model.config, model.tuning.started_from);
  return {{kPeftModelFile, kPeftConfigFile},
          "in Python: peft.PeftModel.from_pretrained(MODEL, \"{0}\"), or --adapter {0} here"};
}
Exported export_gguf_adapters(const OpenedModel& model, const fs::path& out) {
  write_gguf_adapter(out, adapter_of_model(model), model.config);
  return {{}, "llama-completion -m MODEL.gguf --lora {0}, or --adapter {0} here"};
}

bool can_store(const ExportFormat& format, const StoredType& type) {
  return std::find(format.types.begin(), format.types.end(), &type) != format.types.end();
}

}  // namespace

const std::vector<ExportFormat>& export_formats() {
  static const std::vector<ExportFormat> formats = {
      {"hf", "Hugging Face's layout", types_written(is_hf_type), hf_files(), export_hf},
      {"gguf", "GGUF", types_written(is_gguf_type), {}, export_gguf},
      {"onnx", "ONNX, for transformers.js", types_written(is_onnx_type), onnx_files(), export_onnx,
       nullptr, export_onnx_translator},
      {"llm.c", "llm.c's format", types_written(is_llmc_type), llmc_files(), export_llmc},
      {"nanogpt", "nanoGPT's checkpoint", types_written(is_nanogpt_type), nanogpt_files(),
       export_nanogpt},
      {"web", "a page that runs the model", types_written(is_web_type), web_files(), export_web},
      {"html", "the same page in one file", types_written(is_web_type), {}, export_web_file},
      {"peft",
       "LoRA adapters alone, for PEFT",
       {&stored_type(DType::f32)},
       {kPeftModelFile, kPeftConfigFile},
       nullptr,
       export_peft},
      {"gguf-lora",
       "LoRA adapters alone, for llama.cpp",
       {&stored_type(DType::f32)},
       {},
       nullptr,
       export_gguf_adapters},
  };
  return formats;
}

std::string export_obstacle(const nn::DecoderConfig& config) {
  std::vector<std::string> reasons;
  const std::pair<std::string_view, void (*)(const nn::DecoderConfig&)> checks[] = {
      {"hf", check_hf_config}, {"gguf", check_gguf_config}};
  for (const auto& [format, check_config] : checks) {
    try {
      check_config(config);
    } catch (const Error& error) {
      reasons.push_back(fmt::format("as {}: {}", format, error.what()));
    }
  }
  return fmt::format("{}", fmt::join(reasons, "; "));
}

std::vector<const StoredType*> export_types() {
  return types_written([](const StoredType& type) {
    return std::any_of(export_formats().begin(), export_formats().end(),
                       [&](const ExportFormat& format) { return can_store(format, type); });
  });
}

const ExportFormat& export_format(std::string_view name) {
  std::vector<std::string_view> names;
  for (const ExportFormat& format : export_formats()) {
    if (format.name == name) return format;
    names.push_back(format.name);
  }
  fail("there is no format '{}': choose {}", name, fmt::join(names, ", "));
}

void check_outside_runs(const fs::path& place) {
  for (fs::path at = whole_path(place); at != at.parent_path();) {
    at = at.parent_path();
    check(!has_own_config(at), "{} is in {}, the folder of a run or a model: choose another place",
          place.string(), at.string());
  }
}

void check_export(const ExportFormat& format, const fs::path& out, const StoredType& type,
                  bool overwrite) {
  check(can_store(format, type), "--format {} cannot store {}: choose {}", format.name, type.name,
        names_of(format.types));
  check_place(format, out, overwrite);
}

namespace {

// Puts the result of `write` at its place only when it is complete.
template <class Write>
Exported export_by(const ExportFormat& format, const fs::path& out, const Write& write) {
  Exported written;
  if (format.files.empty()) {
    written = write(out);
  } else {
    const Workshop workshop(out);
    written = write(workshop.folder());
    deliver(workshop.folder(), format, out);
  }
  const fs::path place = whole_path(out);
  written.use = fmt::format(fmt::runtime(written.use), out.string(), place.string(),
                            place.filename().string(), place.parent_path().string());
  return written;
}

}  // namespace

Exported export_model(const TextModel& model, const ExportFormat& format, const fs::path& out,
                      const StoredType& type, bool overwrite) {
  check(format.write != nullptr, "--format {} writes adapters alone", format.name);
  check_export(format, out, type, overwrite);
  return export_by(format, out, [&](const fs::path& to) { return format.write(model, to, type); });
}

Exported export_translator(const Translator& model, const ExportFormat& format, const fs::path& out,
                           const StoredType& type, bool overwrite) {
  if (format.write_translator == nullptr) {
    std::vector<std::string_view> able;
    for (const ExportFormat& f : export_formats()) {
      if (f.write_translator != nullptr) able.push_back(f.name);
    }
    fail("--format {} cannot express an encoder-decoder: choose {}", format.name,
         fmt::join(able, ", "));
  }
  check_export(format, out, type, overwrite);
  return export_by(format, out,
                   [&](const fs::path& to) { return format.write_translator(model, to, type); });
}

Exported export_adapters(const OpenedModel& model, const ExportFormat& format, const fs::path& out,
                         bool overwrite) {
  check(format.write_adapters != nullptr, "--format {} writes no adapters", format.name);
  check_export(format, out, *format.types.front(), overwrite);
  return export_by(format, out,
                   [&](const fs::path& to) { return format.write_adapters(model, to); });
}

std::vector<std::string_view> save_adapters_beside(const fs::path& folder,
                                                   const OpenedModel& model) {
  export_peft(model, folder);
  export_gguf_adapters(model, folder / kGgufAdapterFile);
  return {kPeftConfigFile, kPeftModelFile, kGgufAdapterFile};
}

}  // namespace tapegrad::run
