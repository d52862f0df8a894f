#include "tapegrad/autograd/formats/torch_file.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "tapegrad/autograd/tensor/stored_tensor.h"
#include "tapegrad/base/file.h"

namespace tapegrad {
namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view kPickleName = "/data.pkl";

// The folder that the archive's files are in, which has the name that the file had first.
std::string folder_of(const StoredZip& zip) {
  for (const std::string& entry : zip.entries()) {
    if (entry.ends_with(kPickleName) && entry.find('/') == entry.size() - kPickleName.size()) {
      return entry.substr(0, entry.size() - kPickleName.size());
    }
  }
  fail("{}: it is not a file of torch.save: there is no data.pkl in it", zip.name());
}

// Before 1.6, torch.save wrote pickles one behind the other.
void refuse_old_form(const std::filesystem::path& path) {
  std::uint8_t first = 0;
  check(!InputFile(path).read(0, &first, 1) || first != 0x80,
        "{}: it is a file of a PyTorch before 1.6, which is not read: in Python, "
        "torch.save(torch.load(FILE), FILE) writes it anew",
        path.string());
}

bool is_row_major(const Shape& shape, const std::vector<std::int64_t>& strides) {
  std::int64_t expected = 1;
  for (int i = shape.rank(); i-- > 0; expected *= shape[i]) {
    if (shape[i] != 1 && strides[static_cast<std::size_t>(i)] != expected) return false;
  }
  return true;
}

// The element of `size` bytes at each place of `shape` in turn, the last dimension going first.
void gather(const std::uint8_t* from, std::uint8_t* to, std::int64_t size, const Shape& shape,
            const std::vector<std::int64_t>& strides) {
  std::vector<std::int64_t> index(strides.size());
  for (std::int64_t n = shape.numel(), at = 0; n-- > 0;) {
    to = std::copy_n(from + at * size, size, to);
    for (std::size_t d = strides.size(); d-- > 0;) {
      at += strides[d];
      if (++index[d] < shape[static_cast<int>(d)]) break;
      at -= strides[d] * index[d];
      index[d] = 0;
    }
  }
}

class TorchTensors : public TensorSource {
 public:
  TorchTensors(std::shared_ptr<const TorchFile> file, const PickleValue& dict)
      : file_(std::move(file)) {
    for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      const std::string name(dict.items[i]->as_text(file_->name() + ": the name of a tensor"));
      const PickleValue& tensor = *dict.items[i + 1];
      check(tensors_.emplace(name, &tensor).second, "{}: '{}' is there twice", file_->name(), name);
      entries_.emplace(name, file_->entry_of(tensor, name));
    }
  }

  const std::string& name() const override { return file_->name(); }
  const Entries& entries() const override { return entries_; }
  const Metadata& metadata() const override { return metadata_; }

 private:
  StoredTensor open(const std::string& tensor, const Entry&) const override {
    return file_->stored(*tensors_.at(tensor), tensor);
  }

  std::shared_ptr<const TorchFile> file_;
  std::map<std::string, const PickleValue*> tensors_;
  Entries entries_;
  Metadata metadata_;
};

}  // namespace

// Where a tensor lies in the file.
struct TorchFile::Layout {
  const StoredType* type = nullptr;
  Shape shape;
  std::vector<std::int64_t> strides;
  std::uint64_t begin = 0;  // byte of the first element
  std::int64_t span = 0;    // elements from the first to the last one
};

TorchFile::TorchFile(const std::filesystem::path& path)
    : zip_((refuse_old_form(path), path)),
      folder_(folder_of(zip_)),
      pickle_(
          [&] {
            const std::string order = folder_ + "/byteorder";
            check(!zip_.contains(order) || zip_.read(order, 100) == "little",
                  "{}: only little-endian files are supported", zip_.name());
            return zip_.read(folder_ + std::string(kPickleName), Pickle::kMostBytes);
          }(),
          zip_.name()) {}

TorchFile::Layout TorchFile::layout_of(const PickleValue& tensor, const std::string& what) const {
  const std::string where = fmt::format("{}: '{}'", name(), what);
  tensor.as(Kind::tensor, where);
  const PickleValue& storage = *tensor.items[0];
  Layout l;
  for (const StoredType& type : stored_types()) {
    if (type.torch_storage == storage.type) l.type = &type;
  }
  check(l.type != nullptr, "{} has a storage of the unknown type {}", where, storage.type);
  const std::int64_t offset = tensor.items[1]->integer;
  for (const PickleValue* size : tensor.items[2]->items) {
    check(size->integer >= 0 && l.shape.rank() < Shape::kMaxRank, "{} has no possible shape",
          where);
    l.shape.push_back(size->integer);
  }
  for (const PickleValue* stride : tensor.items[3]->items) l.strides.push_back(stride->integer);
  const std::int64_t most = storage.integer;
  const bool empty = std::count(l.shape.begin(), l.shape.end(), 0) > 0;
  std::int64_t numel = empty ? 0 : 1;
  bool inside = offset >= 0;
  for (int i = 0; i < l.shape.rank() && !empty && inside; ++i) {
    inside = numel <= most / l.shape[i];
    if (inside) numel *= l.shape[i];
  }
  std::int64_t last = offset;
  for (int i = 0; i < l.shape.rank() && numel > 0 && inside; ++i) {
    const std::int64_t stride = l.strides[static_cast<std::size_t>(i)], steps = l.shape[i] - 1;
    inside = last < most && stride >= 0 && (steps == 0 || stride <= (most - 1 - last) / steps);
    if (inside) last += steps * stride;
  }
  check(inside && (numel == 0 || last < most), "{} does not lie within its storage", where);
  if (numel == 0) return l;
  const StoredZip::Place place = zip_.place(fmt::format("{}/data/{}", folder_, storage.text));
  const auto size = static_cast<std::uint64_t>(l.type->block_bytes);
  check(place.size % size == 0 && place.size / size == static_cast<std::uint64_t>(most),
        "{} has a storage of {} bytes, not of {} elements of {}", where, place.size, most,
        l.type->name);
  l.begin = place.begin + static_cast<std::uint64_t>(offset) * size;
  l.span = last - offset + 1;
  return l;
}

TensorSource::Entry TorchFile::entry_of(const PickleValue& tensor, const std::string& what) const {
  const Layout l = layout_of(tensor, what);
  return TensorSource::Entry::of(*l.type, l.shape);
}

StoredTensor TorchFile::stored(const PickleValue& tensor, const std::string& what) const {
  const Layout l = layout_of(tensor, what);
  const std::string label = fmt::format("{}: tensor '{}'", name(), what);
  if (l.span == 0 || is_row_major(l.shape, l.strides)) {
    return {*l.type, l.shape, zip_.file(), l.begin, label};
  }
  const std::int64_t size = l.type->block_bytes;
  Tensor all = Tensor::empty({l.span * size}, DType::u8);
  Tensor ordered = Tensor::empty({l.shape.numel() * size}, DType::u8);
  check(zip_.file().read(l.begin, all.mutable_data<std::uint8_t>(), all.bytes()),
        "{}: reading it failed", label);
  gather(all.data<std::uint8_t>(), ordered.mutable_data<std::uint8_t>(), size, l.shape, l.strides);
  const auto read = [ordered](std::uint64_t offset, std::byte* to, std::size_t bytes) {
    std::memcpy(to, ordered.data<std::uint8_t>() + offset, bytes);
    return true;
  };
  return {*l.type, l.shape, read, label};
}

bool is_same_tensor(const PickleValue& a, const PickleValue& b) {
  if (a.kind != Kind::tensor || b.kind != Kind::tensor) return false;
  const auto same = [](const PickleValue* x, const PickleValue* y) {
    return x->integer == y->integer;
  };
  const auto same_all = [&](const PickleValue* x, const PickleValue* y) {
    return std::equal(x->items.begin(), x->items.end(), y->items.begin(), y->items.end(), same);
  };
  const PickleValue &s = *a.items[0], &t = *b.items[0];
  return s.text == t.text && s.type == t.type && same(a.items[1], b.items[1]) &&
         same_all(a.items[2], b.items[2]) && same_all(a.items[3], b.items[3]);
}

std::shared_ptr<const TensorSource> tensors_of(std::shared_ptr<const TorchFile> file,
                                               const PickleValue& dict) {
  return std::make_shared<TorchTensors>(std::move(file), dict);
}

}  // namespace tapegrad
