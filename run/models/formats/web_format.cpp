#include "tapegrad/run/models/formats/web_format.h"

#include "tapegrad/base/file.h"
#include "tapegrad/base/text/internal/base64.h"
#include "tapegrad/run/folder/internal/config_json.h"
#include "tapegrad/run/folder/internal/folder_calls.h"
#include "tapegrad/run/folder/run_folder.h"
#include "tapegrad/run/models/formats/internal/foreign_parts.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexFile = "index.html";
constexpr std::string_view kPlace = "/* model */";  // in the page, of the weights in base64

std::string page() {
  std::error_code unknown;
  const fs::path program = fs::read_symlink("/proc/self/exe", unknown);
  check(!program.empty(), "cannot find the page beside the program: /proc/self/exe cannot be read");
  const fs::path path = program.parent_path().parent_path() / kWebPage;
  check(has_entry(path),
        "{} is not there: make it once by scripts/web.sh, which needs emscripten (docs/web.md)",
        path.string());
  std::string text = read_file(path, kMostInPage);
  check(text.find(kPlace) != text.npos, "{} has no place for a model: make it by scripts/web.sh",
        path.string());
  return text;
}

// As the page has it, which knows characters and byte pairs.
std::string tokenizer_text(const data::Tokenizer& tokenizer) {
  if (tokenizer.kind() == "char") return tokenizer.file_text();
  try {
    return tokenizer.byte_pairs().file_text();
  } catch (const Error& error) {
    fail(
        "a page has the tokenizers char, bpe and gpt2, and those that work as these, not this {}: "
        "{}",
        tokenizer.kind(), error.what());
  }
}

// `name`: of the page. Error if the page has no such tokenizer.
std::string description_of(const TextModel& model, const std::string& name) {
  Json options = Json::object();
  for (const auto& [name, value] : section_of("model", model.gpt.config).values) {
    options[name] = json_of_value(value);
  }
  constexpr int kDepth = 3;  // of a tokenizer's file
  std::string text =
      json_text({{"name", name},
                 {"model", std::move(options)},
                 {"tokenizer", parse_json<Json>(tokenizer_text(model.tokenizer), kDepth)},
                 {"ends", model.tokenizer.ends()},
                 {"prompt", default_prompt(model.tokenizer)}});
  constexpr std::size_t kMost =
      4'000'000;  // readers of safetensors have a bound for what says this
  check(text.size() <= kMost, "the tokenizer takes {} bytes, and a page has {} for it", text.size(),
        kMost);
  return text;
}

// The whole page, once all is known to fit.
std::string checked_page(const TextModel& model, const StoredType& type, std::int64_t most,
                         std::string_view remedy) {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : model.params.tensors()) {
    bytes += static_cast<std::int64_t>(stored_bytes(type, tensor.shape()).value_or(0));
  }
  constexpr std::int64_t kMB = 1 << 20;
  check(bytes <= most, "the weights take {} MB as {}, and such a page holds {} MB: {}",
        (bytes + kMB - 1) / kMB, type.name, most / kMB, remedy);
  std::string text = page();
  require_stored_as(type, model.params);
  return text;
}

void write_weights(const TextModel& model, const fs::path& file, const std::string& description,
                   const StoredType& type) {
  std::vector<TensorToMake> tensors;
  for (const auto& [name, tensor] : model.params.tensors()) {
    tensors.push_back({name, tensor.shape(), [t = tensor] { return t; }});
  }
  save_safetensors(file.string(), tensors, type, {{std::string(kWebDescription), description}});
}

}  // namespace

bool is_web_type(const StoredType& type) {
  return type.is(DType::f32) || type.name == "f16" || type.name == "bf16";
}

std::vector<std::string_view> web_files() { return {kModelFile, kIndexFile}; }

Exported export_web(const TextModel& model, const fs::path& folder, const StoredType& type) {
  const std::string text =
      checked_page(model, type, kMostBesidePage, "--dtype f16 or bf16 takes half of f32");
  const fs::path name = (folder / "").parent_path().filename();
  const std::string description = description_of(model, name.string());
  make_folder(folder);
  write_weights(model, folder / kModelFile, description, type);
  write_file_atomically(folder / kIndexFile, text);
  return {web_files(),
          "by a web server: python3 -m http.server --directory {0}, then http://localhost:8000"};
}

Exported export_web_file(const TextModel& model, const fs::path& file, const StoredType& type) {
  std::string text = checked_page(model, type, kMostInPage,
                                  "--dtype f16 takes half of f32, and --format web with a folder "
                                  "for --out holds more");
  const std::string description = description_of(model, file.stem().string());
  if (file.has_parent_path()) make_folder(file.parent_path());
  const fs::path folder = make_free_folder(file.string() + ".part");
  struct Remove {
    const fs::path& path;
    ~Remove() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  } const at_end{folder};
  write_weights(model, folder / kModelFile, description, type);
  text.replace(text.find(kPlace), kPlace.size(), base64_of(read_file(folder / kModelFile)));
  write_file_atomically(file, text);
  return {{}, "in any browser: {1}"};
}

}  // namespace tapegrad::run
