#include "tapegrad/run/models/families/internal/gpt_oss_experts.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tapegrad/autograd/tensor/stored_tensor.h"
#include "tapegrad/nn/decoder.h"
#include "tapegrad/run/models/families/internal/mxfp4_tensor.h"

namespace tapegrad::run {
namespace {

using Files = std::vector<std::shared_ptr<const TensorSource>>;
constexpr std::string_view kExperts = ".mlp.experts.";

// Units of bytes that a read takes from the file at a time.
constexpr std::uint64_t kUnitsAtOnce = 1 << 14;

void copy_every_second(const std::byte* from, std::uint64_t count, std::size_t unit,
                       std::byte* to) {
  const auto copy = [=](auto size) {  // of a size that the compiler knows
    for (std::uint64_t i = 0; i < count; ++i) std::memcpy(to + i * size, from + 2 * i * size, size);
  };
  if (unit == 2) return copy(std::integral_constant<std::size_t, 2>());
  if (unit == 4) return copy(std::integral_constant<std::size_t, 4>());
  copy(unit);
}

// Every second element of the rows of a tensor, those at `first`, 0 or 1, and its like.
StoredTensor every_second(const StoredTensor& from, std::uint64_t first) {
  const StoredType& type = from.type();
  const Shape shape = from.shape().with(-1, from.shape()[-1] / 2);
  const auto unit = static_cast<std::uint64_t>(type.block_bytes);
  const auto read = [from, first, unit](std::uint64_t offset, std::byte* to, std::size_t bytes) {
    std::vector<std::byte> pairs, picked;
    while (bytes > 0) {
      const std::uint64_t begin = offset / unit, within = offset % unit;
      const std::uint64_t count =
          std::min(kUnitsAtOnce, (within + bytes + unit - 1) / unit);  // elements
      pairs.resize((2 * count - 1) * unit);
      picked.resize(count * unit);
      if (!from.read((2 * begin + first) * unit, pairs.data(), pairs.size())) return false;
      copy_every_second(pairs.data(), count, unit, picked.data());
      const std::size_t size = std::min<std::size_t>(bytes, picked.size() - within);
      std::memcpy(to, picked.data() + within, size);
      offset += size, to += size, bytes -= size;
    }
    return true;
  };
  return {type, shape, read, from.label()};
}

class ExpertFiles : public TensorSource {
 public:
  explicit ExpertFiles(const Files& files) : name_(files.front()->name()) {
    for (const auto& file : files) {
      for (const auto& [name, entry] : file->entries()) sort(file, name);
    }
    for (const auto& [name, file] : scales_) {
      check(blocks_.count(name) != 0, "{}: '{}_scales' is there, and no '{}_blocks'", file->name(),
            name, name);
    }
    for (const auto& [name, file] : blocks_) {
      const auto scales = scales_.find(name);
      check(scales != scales_.end(), "{}: '{}_blocks' is there, and no '{}_scales'", file->name(),
            name, name);
      add_mxfp4(name, file, scales->second);
    }
  }
  const std::string& name() const override { return name_; }
  const Entries& entries() const override { return entries_; }
  const Metadata& metadata() const override { return metadata_; }

 private:
  using File = std::shared_ptr<const TensorSource>;

  void sort(const File& file, const std::string& name) {
    const std::size_t at = name.find(kExperts);
    const std::string part = at == name.npos ? "" : name.substr(at + kExperts.size());
    const auto without = [&](std::string_view end) {
      return name.substr(0, name.size() - end.size());
    };
    if (part == "gate_up_proj" || part == "down_proj") return add_floats(file, name);
    if (part == "gate_up_proj_bias" || part == "down_proj_bias") return add_biases(file, name);
    if (part == "gate_up_proj_blocks" || part == "down_proj_blocks") {
      return add_once(blocks_, without("_blocks"), file);
    }
    if (part == "gate_up_proj_scales" || part == "down_proj_scales") {
      return add_once(scales_, without("_scales"), file);
    }
    add(name, file->at(name), [file, name] { return file->stored(name); });
  }

  static void add_once(std::map<std::string, File>& files, const std::string& name,
                       const File& file) {
    check(files.emplace(name, file).second, "{}: '{}' is there twice", file->name(), name);
  }
  void add(const std::string& name, const Entry& entry, std::function<StoredTensor()> open) {
    check(entries_.emplace(name, entry).second, "{}: '{}' is there twice", name_, name);
    opens_.emplace(name, std::move(open));
  }

  // The tensors that `name`, of gate_up_proj or down_proj, stands for, each with the place of its
  // first row.
  static std::vector<std::pair<std::string, std::int64_t>> parts_of(std::string name) {
    const std::size_t joined = name.rfind("gate_up_proj");
    if (joined == name.npos) return {{name, -1}};
    const std::string before = name.substr(0, joined);
    return {{before + "gate_proj", 0}, {before + "up_proj", 1}};
  }
  static void check_shape(const TensorSource& file, const std::string& name, const Shape& shape,
                          int rank, bool joined, int dim) {
    check(shape.rank() == rank && (!joined || shape[dim] % 2 == 0),
          "{}: '{}' of shape {} is not one of gpt-oss's experts", file.name(), name, shape);
  }

  void add_floats(const File& file, const std::string& name) {
    const Entry& entry = file->at(name);
    const Shape& s = entry.shape;
    for (const auto& [part, first] : parts_of(name)) {
      const bool joined = first >= 0;
      check_shape(*file, name, s, 3, joined, -1);
      const Shape shape = {s[0], joined ? s[2] / 2 : s[2], s[1]};
      add(part + ".weight", {entry.type, entry.dtype, shape}, [=, first = first] {
        const StoredTensor all = file->stored(name);
        return (joined ? every_second(all, static_cast<std::uint64_t>(first)) : all).transposed();
      });
    }
  }

  void add_biases(const File& file, const std::string& name) {
    const Entry& entry = file->at(name);
    const Shape& s = entry.shape;
    for (const auto& [part, first] : parts_of(name.substr(0, name.rfind("_bias")))) {
      const bool joined = first >= 0;
      check_shape(*file, name, s, 2, joined, -1);
      add(part + ".bias", {entry.type, entry.dtype, {s[0], joined ? s[1] / 2 : s[1]}},
          [=, first = first] {
            const StoredTensor all = file->stored(name);
            return joined ? every_second(all, static_cast<std::uint64_t>(first)) : all;
          });
    }
  }

  void add_mxfp4(const std::string& name, const File& blocks, const File& scales) {
    const Shape s = mxfp4_shape(*blocks, name + "_blocks", *scales, name + "_scales");
    for (const auto& [part, first] : parts_of(name)) {
      const bool joined = first >= 0;
      check_shape(*blocks, name + "_blocks", s, 3, joined, 1);
      const Shape shape = s.with(1, joined ? s[1] / 2 : s[1]);
      add(part + ".weight", Entry::of(stored_type("mxfp4"), shape), [=, first = first] {
        const StoredTensor all =
            mxfp4_rows(blocks->stored(name + "_blocks"), scales->stored(name + "_scales"));
        if (!joined) return reshaped(all, shape);
        const auto place = [first](std::int64_t row) { return 2 * row + first; };
        return reshaped(all.rows(shape[0] * shape[1], place), shape);
      });
    }
  }

  StoredTensor open(const std::string& tensor, const Entry&) const override {
    return opens_.at(tensor)();
  }

  std::string name_;
  Entries entries_;
  Metadata metadata_;
  std::map<std::string, File> blocks_, scales_;
  std::map<std::string, std::function<StoredTensor()>> opens_;
};

// (E, out, in) → (E, in, out).
Tensor turned(const Tensor& matrices) {
  const TapePause pause;
  return permute(matrices, {0, 2, 1});
}

// Two tensors (…, n) as one (…, 2n), by turns.
Tensor interleaved(const Tensor& even, const Tensor& odd) {
  const TapePause pause;
  return reshape(stack({even, odd}, even.rank()), even.shape().with(-1, 2 * even.dim(-1)));
}

}  // namespace

Files gpt_oss_experts_apart(const Files& files) { return {std::make_shared<ExpertFiles>(files)}; }

std::vector<TensorToMake> gpt_oss_experts_joined(std::vector<TensorToMake> tensors) {
  std::map<std::string, TensorToMake> gates;  // by the names of what they multiply
  std::vector<TensorToMake> joined;
  for (TensorToMake& t : tensors) {
    const std::size_t at = t.name.find(kExperts);
    if (at == t.name.npos) {
      joined.push_back(std::move(t));
      continue;
    }
    const std::string before = t.name.substr(0, at + kExperts.size()),
                      part = t.name.substr(before.size());
    const bool is_bias = part.ends_with(".bias");
    const std::string end = is_bias ? "_bias" : "";
    const auto as_stored = [is_bias](const Tensor& x) { return is_bias ? x : turned(x); };
    const Shape shape = is_bias ? t.shape : Shape{t.shape[0], t.shape[2], t.shape[1]};
    if (part.starts_with("gate_proj")) {
      gates.emplace(before + "up_proj" + part.substr(part.find('.')), std::move(t));
    } else if (part.starts_with("up_proj")) {
      const auto make = [gate = gates.at(t.name).make, up = t.make, as_stored] {
        return interleaved(as_stored(gate()), as_stored(up()));
      };
      joined.push_back({before + "gate_up_proj" + end, shape.with(-1, 2 * shape[-1]), make});
    } else {
      const auto make = [make = t.make, as_stored] { return as_stored(make()); };
      joined.push_back({before + "down_proj" + end, shape, make});
    }
  }
  return joined;
}

}  // namespace tapegrad::run
