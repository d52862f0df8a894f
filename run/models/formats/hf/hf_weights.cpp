#include "tapegrad/run/models/formats/hf/internal/hf_weights.h"

#include <algorithm>
#include <string>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/autograd/formats/torch_file.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/run/folder/file_names.h"
#include "tapegrad/run/folder/run_checkpoint.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostIndexBytes = 16 << 20;
constexpr std::string_view kTorchFile = "pytorch_model.bin";

std::string index_of(std::string_view file) { return std::string(file) + ".index.json"; }

// The names that an index has.
std::vector<std::string> files_of(const fs::path& index) {
  const Json json = parse_json_object(index, read_file(index, kMostIndexBytes));
  Json map;
  get(index, json, "weight_map", map);
  std::vector<std::string> names;
  for (const auto& [tensor, file] : map.items()) {
    check(file.is_string(), "{}: the file of '{}' must be a text", index.string(), tensor);
    const auto name = file.get<std::string>();
    check(!name.empty() && fs::path(name).filename() == name && name != "." && name != "..",
          "{}: '{}' is not the name of a file beside it", index.string(), name);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    check(names.size() <= 1000, "{}: more than 1,000 files", index.string());
  }
  check(!names.empty(), "{}: 'weight_map' names no file", index.string());
  return names;
}

// Whose weights a tensor is of that is not of floats; empty if that is unknown. Quantisers of
// transformers keep numbers beside the weight, or call it otherwise.
std::string_view quantised_by(const TensorSource& file, const std::string& tensor) {
  const auto has = [&](std::string_view end) { return file.contains(tensor + std::string(end)); };
  if (has(".quant_state.bitsandbytes__nf4") || has(".quant_state.bitsandbytes__fp4") ||
      has(".absmax")) {
    return "4-bit weights of bitsandbytes";
  }
  for (const std::string_view end : {".qweight", ".qzeros", ".g_idx"}) {
    if (tensor.ends_with(end)) return "weights of GPTQ or AWQ";
  }
  if (tensor.ends_with(".weight_packed")) return "weights of compressed-tensors";
  return {};
}

// The first file in the folder, by name, that is one of several:
// "model-00001-of-00003.safetensors".
std::string first_shard(const fs::path& folder) {
  std::string first;
  for (const fs::path& entry : list_folder(folder)) {
    const std::string name = entry.filename().string();
    const bool is_weights = name.ends_with(".safetensors") || name.ends_with(".bin");
    const bool is_shard = is_weights && name.find("-of-") != std::string::npos;
    if (is_shard && (first.empty() || name < first)) first = name;
  }
  return first;
}

[[noreturn]] void refuse_without_weights(const fs::path& folder) {
  if (const std::string shard = first_shard(folder); !shard.empty()) {
    const bool safe = shard.ends_with(".safetensors");
    fail("{}: {} is one of several files, and {}, which lists them, is missing: copy it, too",
         folder.string(), shard, index_of(safe ? kModelFile : kTorchFile));
  }
  refuse_peft_folder(folder);
  fail("{}: there are no weights: neither {} nor {}, nor the index of several files",
       folder.string(), kModelFile, kTorchFile);
}

}  // namespace

std::vector<std::shared_ptr<const TensorSource>> open_hf_weights(const fs::path& folder) {
  for (const std::string_view file : {kModelFile, kTorchFile}) {
    const fs::path single = folder / file, index = folder / index_of(file);
    if (path_exists(single)) return {open_weights(single)};
    if (!path_exists(index)) continue;
    std::vector<std::shared_ptr<const TensorSource>> files;
    for (const std::string& name : files_of(index)) files.push_back(open_weights(folder / name));
    return files;
  }
  refuse_without_weights(folder);
}

std::shared_ptr<const TensorSource> open_weights(const fs::path& path) {
  if (path.extension() == ".safetensors") return open_safetensors(path.string());
  const auto file = std::make_shared<const TorchFile>(path);
  const PickleValue& root = file->root();
  check(root.kind == PickleValue::Kind::dict, "{}: it is not a dict of tensors", file->name());
  return tensors_of(file, root);
}

void check_is_float(const TensorSource& file, const std::string& tensor) {
  const DType dtype = file.at(tensor).dtype;
  if (is_float(dtype)) return;
  const std::string_view whose = quantised_by(file, tensor);
  check(!whose.empty(), "{}: '{}' is {}, not of floats", file.name(), tensor, name_of(dtype));
  fail("{}: '{}' is {}: {}, which are not supported: {}", file.name(), tensor, name_of(dtype),
       whose, kQuantisedRemedy);
}

void refuse_peft_folder(const fs::path& folder) {
  const fs::path path = folder / kPeftConfigFile;
  if (!path_exists(path)) return;
  std::string base = "its model";
  const Json json = parse_json_object(path, read_file(path, kMostIndexBytes));
  const Json named = json.value("base_model_name_or_path", Json());
  if (named.is_string()) base = named.get<std::string>();
  fail("{}: there is an adapter here, and no model: open {}, with --adapter {}", folder.string(),
       base, folder.string());
}

}  // namespace tapegrad::run
