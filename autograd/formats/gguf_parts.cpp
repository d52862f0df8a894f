// Files that llama-gguf-split makes of one: github.com/ggml-org/llama.cpp, tools/gguf-split.

#include "tapegrad/autograd/formats/gguf.h"
#include "tapegrad/base/file.h"

namespace tapegrad {
namespace {

namespace fs = std::filesystem;

constexpr const char *kNumber = "split.no", *kCount = "split.count",
                     *kTensors = "split.tensors.count";
constexpr std::int64_t kMostParts = 512;  // all are open at once

std::int64_t whole_number(const GgufFile& file, const std::string& key, std::int64_t most) {
  const auto found = file.keys().find(key);
  check(found != file.keys().end(), "{}: it is a part of a model, but there is no key '{}'",
        file.name(), key);
  const auto* const value = std::get_if<std::int64_t>(&found->second);
  check(value != nullptr && *value >= 0 && *value <= most,
        "{}: the key '{}' is no whole number from 0 to {}", file.name(), key, most);
  return *value;
}

std::string end_of_name(std::int64_t number, std::int64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", number + 1, count);
}

// The path of another part of the model that the part `number` at `path` belongs to.
fs::path path_of_part(const fs::path& path, std::int64_t number, std::int64_t count,
                      std::int64_t other) {
  const std::string name = path.filename().string(), end = end_of_name(number, count);
  check(
      name.ends_with(end),
      "{}: it is part {} of {}, but its name does not end in '{}', by which the others are found: "
      "give all parts their names back",
      path.string(), number + 1, count, end);
  return path.parent_path() /
         (name.substr(0, name.size() - end.size()) + end_of_name(other, count));
}

std::shared_ptr<GgufFile> open_part(const fs::path& path, std::int64_t number, std::int64_t count,
                                    const std::string& named) {
  check(path_exists(path),
        "{}: there is no such file, part {} of the {} to which {} belongs: all parts must be in "
        "one folder",
        path.string(), number + 1, count, named);
  auto part = std::make_shared<GgufFile>(path);
  const std::int64_t no = whole_number(*part, kNumber, kMostParts);
  const std::int64_t of = whole_number(*part, kCount, kMostParts);
  check(no == number && of == count,
        "{}: it says that it is part {} of {}, and not, as its name does, part {} of {}: fetch it "
        "again",
        part->name(), no + 1, of, number + 1, count);
  return part;
}

}  // namespace

void GgufFile::add(const std::shared_ptr<const GgufFile>& part) {
  for (const auto& [key, value] : part->keys()) {
    if (key.starts_with("split.") || key == "general.alignment") continue;  // of each file
    check(keys_.contains(key) && stored_value(key) == part->stored_value(key),
          "{}: the key '{}' is not as {} has it: are they parts of different models?", part->name(),
          key, name_);
  }
  for (const auto& [tensor, entry] : part->entries()) {
    check(entries_.size() < kMaxNames, "{}: with this part, the model has more than {} tensors",
          part->name(), +kMaxNames);
    check(entries_.emplace(tensor, entry).second, "{}: another part has the tensor '{}', too",
          part->name(), tensor);
    of_parts_.emplace(tensor, part);
  }
}

std::shared_ptr<const GgufFile> open_gguf_parts(const fs::path& path) {
  auto named = std::make_shared<GgufFile>(path);
  if (!named->keys().contains(kCount)) return named;
  const std::int64_t count = whole_number(*named, kCount, kMostParts);
  if (count <= 1) return named;
  const std::int64_t number = whole_number(*named, kNumber, count - 1);
  std::shared_ptr<GgufFile> first;
  for (std::int64_t i = 0; i < count; ++i) {
    const fs::path other = path_of_part(path, number, count, i);
    const auto part = i == number ? named : open_part(other, i, count, named->name());
    if (i == 0) {
      first = part;
    } else {
      first->add(part);
    }
  }
  const auto most = static_cast<std::int64_t>(GgufFile::kMaxNames);
  const std::int64_t tensors = whole_number(*first, kTensors, most);
  check(std::ssize(first->entries()) == tensors,
        "{}: it says that all {} parts have {} tensors, but they have {}: are they parts of "
        "different models?",
        first->name(), count, tensors, first->entries().size());
  return first;
}

}  // namespace tapegrad
