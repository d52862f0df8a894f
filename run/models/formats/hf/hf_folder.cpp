#include "tapegrad/run/models/formats/hf/hf_folder.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "tapegrad/autograd/tensor/stored_tensor.h"
#include "tapegrad/data/tokenize/hf/internal/hf_export.h"
#include "tapegrad/run/models/formats/hf/internal/hf_config.h"
#include "tapegrad/run/models/formats/hf/internal/hf_names.h"
#include "tapegrad/run/models/formats/hf/internal/hf_weights.h"
#include "tapegrad/run/models/formats/internal/foreign_parts.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHead = "lm_head.weight";

// The tensors of the files by our names.
class HfSource : public TensorSource {
 public:
  HfSource(const fs::path& folder, const HfModel& model)
      : name_(folder.string()),
        family_(model.family.hf),
        config_(model.config),
        prefix_(model.wrapped ? family_.wrapper_prefix : family_.prefix) {
    HfFamily::Files files = open_hf_weights(folder);
    if (family_.apart != nullptr) files = family_.apart(files);
    for (const auto& file : files) {
      for (const auto& [stored, entry] : file->entries()) add(file, stored, entry);
    }
    for (const auto& [name, parts] : experts_) add_stack(name, parts);
    if (model.config.tied && entries_.count(std::string(kHead)) != 0 && head_is_embedding()) {
      entries_.erase(std::string(kHead));
    }
  }
  const std::string& name() const override { return name_; }
  const Entries& entries() const override { return entries_; }
  const Metadata& metadata() const override { return metadata_; }

 private:
  struct Place {
    std::shared_ptr<const TensorSource> file;
    std::string stored;
    const HfRows* rows = nullptr;  // ours is these of the stored one
  };

  void add(const std::shared_ptr<const TensorSource>& file, const std::string& stored,
           Entry entry) {
    std::string name = stored;
    const auto begins = [&](std::string_view part) { return stored.starts_with(part); };
    if (std::ranges::any_of(family_.parts_left_out, begins)) return;
    if (name.starts_with(prefix_)) name.erase(0, prefix_.size());
    if (ends_in(name, family_.left_out)) return;
    check_is_float(*file, stored);
    if (const auto parts = rows_of(family_, name); !parts.empty()) {
      return add_rows(file, stored, entry, parts);
    }
    const HfPlace place = place_of(family_, config_, name);
    name = place.ours;
    if (place.expert) {
      check(experts_[name].emplace(*place.expert, Place{file, stored}).second,
            "{}: '{}' is there twice", file->name(), stored);
      return;
    }
    if (ends_in(name, family_.transposed)) {
      check(entry.shape.rank() == 2, "{}: '{}' must be a matrix, not {}", file->name(), stored,
            entry.shape);
      std::swap(entry.shape[0], entry.shape[1]);
    }
    check(places_.emplace(name, Place{file, stored}).second, "{}: '{}' is there twice",
          file->name(), stored);
    entries_.emplace(name, entry);
  }

  // One tensor becomes several.
  void add_rows(const std::shared_ptr<const TensorSource>& file, const std::string& stored,
                Entry entry, const std::vector<HfRowsPlace>& parts) {
    std::int64_t rows = 0;
    for (const HfRowsPlace& part : parts) rows += part.rows->count(config_);
    check(entry.shape.rank() == 2 && entry.shape[0] == rows,
          "{}: '{}' must be a matrix of {} rows, not {}", file->name(), stored, rows, entry.shape);
    for (const HfRowsPlace& part : parts) {
      entry.shape[0] = part.rows->count(config_);
      check(places_.emplace(part.ours, Place{file, stored, part.rows}).second,
            "{}: '{}' is there twice", file->name(), stored);
      entries_.emplace(part.ours, entry);
    }
  }

  // The tensors of all experts become one.
  void add_stack(const std::string& name, const std::map<std::int64_t, Place>& parts) {
    const Entry& first = entry_of(parts.begin()->second);
    std::int64_t next = 0;
    for (const auto& [expert, place] : parts) {
      check(expert == next, "{}: '{}' is there, and nothing of expert {}", name_, place.stored,
            next);
      ++next;
      const Entry& entry = entry_of(place);
      check(entry.type == first.type && entry.shape == first.shape,
            "{}: '{}' and '{}' have different types or shapes", name_, parts.begin()->second.stored,
            place.stored);
    }
    check(entries_.count(name) == 0, "{}: '{}' is there twice", name_, name);
    entries_.emplace(name, Entry{first.type, first.dtype, first.shape.inserted(0, next)});
  }
  static const Entry& entry_of(const Place& place) { return place.file->at(place.stored); }

  // Files of tied models may have the head, too. One that differs from the embedding is used.
  bool head_is_embedding() const {
    return stored(std::string(kHead)).same_bytes(stored(std::string(family_.embedding)));
  }

  StoredTensor open(const std::string& tensor, const Entry&) const override {
    if (const auto stack = experts_.find(tensor); stack != experts_.end()) {
      std::vector<StoredTensor> parts;
      for (const auto& [expert, place] : stack->second) {
        parts.push_back(place.file->stored(place.stored));
      }
      return StoredTensor::stack(std::move(parts), fmt::format("{}: tensor '{}'", name_, tensor));
    }
    const Place& place = places_.at(tensor);
    const StoredTensor stored = place.file->stored(place.stored);
    if (place.rows != nullptr) {
      return stored.rows(place.rows->count(config_), [rows = place.rows, this](std::int64_t i) {
        return rows->place(config_, i);
      });
    }
    return ends_in(tensor, family_.transposed) ? stored.transposed() : stored;
  }

  std::string name_;
  const HfFamily& family_;
  const nn::DecoderConfig config_;
  const std::string_view prefix_;
  Entries entries_;
  Metadata metadata_;
  std::map<std::string, Place> places_;
  std::map<std::string, std::map<std::int64_t, Place>> experts_;  // of each stack, by number
};

// The tokenizer of a model with so many rows. Added tokens that it has no row for are text to it,
// as Gemma 3's <image_soft_token> is to the models that see no images. Texts cannot begin or end
// with them.
data::Tokenizer tokenizer_in(const fs::path& folder, std::int64_t rows) {
  data::Tokenizer tokenizer = data::Tokenizer::from_hf(folder);
  const auto has_row = [rows](data::Token token) { return token < rows; };
  const std::vector<data::Token> ends = tokenizer.ends();
  const std::span<const data::Token> begin = tokenizer.begin();
  const bool others_alone = std::all_of(ends.begin(), ends.end(), has_row) &&
                            std::all_of(begin.begin(), begin.end(), has_row);
  if (tokenizer.kind() == "hf" && tokenizer.vocab_size() > rows && others_alone) {
    const std::string json = data::hf_json_without_added(tokenizer.hf_json(), rows);
    const std::vector<std::int64_t> same_ends(ends.begin(), ends.end());
    tokenizer = data::Tokenizer::of_hf(json).ending_at(same_ends);
  }
  return tokenizer_of_rows(tokenizer, rows, folder.string());
}

}  // namespace

bool is_hf_folder(const fs::path& folder) { return has_hf_config(folder); }

ForeignModel open_hf(const fs::path& folder) {
  HfModel model = read_hf_config(folder);
  nn::DecoderConfig& config = model.config;
  auto weights = std::make_shared<HfSource>(folder, model);
  config.tied = config.tied && !weights->contains(std::string(kHead));
  return {config, tokenizer_in(folder, config.vocab_size), std::move(weights),
          read_settings(folder)};
}

}  // namespace tapegrad::run
