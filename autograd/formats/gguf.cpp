#include "tapegrad/autograd/formats/gguf.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "tapegrad/autograd/formats/internal/gguf_layout.h"
#include "tapegrad/autograd/tensor/stored_tensor.h"

namespace tapegrad {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostDimensions = 4;
// A key has at least an empty name, a type and a byte; a tensor an empty name, the number of its
// dimensions, none of them, a type and an offset.
constexpr std::uint64_t kLeastKey = 8 + 4 + 1, kLeastTensor = 8 + 4 + 4 + 8;

// The double that is written as the f32 is: the shortest decimal that no other f32 is nearer to.
double shortest(float x) {
  char text[32];
  const auto written = std::to_chars(text, text + sizeof text, x);
  double value = x;
  std::from_chars(text, written.ptr, value);
  return value;
}

// The names of ggml's other types, for messages.
std::string name_of_number(std::uint32_t type) {
  constexpr std::string_view names[] = {
      "F32",   "F16",        "Q4_0",       "Q4_1",       "Q4_2",     "Q4_3",     "Q5_0",
      "Q5_1",  "Q8_0",       "Q8_1",       "Q2_K",       "Q3_K",     "Q4_K",     "Q5_K",
      "Q6_K",  "Q8_K",       "IQ2_XXS",    "IQ2_XS",     "IQ3_XXS",  "IQ1_S",    "IQ4_NL",
      "IQ3_S", "IQ2_S",      "IQ4_XS",     "I8",         "I16",      "I32",      "I64",
      "F64",   "IQ1_M",      "BF16",       "Q4_0_4_4",   "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",
      "TQ2_0", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4",    "NVFP4",    "Q1_0",
      "Q2_0"};
  if (type < std::size(names)) return fmt::format("{} ({})", names[type], type);
  return fmt::format("number {}", type);
}

std::uint64_t aligned(std::uint64_t offset, std::uint64_t to) {
  return (offset + to - 1) / to * to;
}

}  // namespace

// Reads what stands before the tensors' data, in order, through a buffer.
class GgufReader {
 public:
  explicit GgufReader(GgufFile& file) : f_(file) {}

  void read() {
    char magic[sizeof kGgufMagic];
    take(magic, sizeof magic, "its first bytes");
    check(std::equal(std::begin(magic), std::end(magic), std::begin(kGgufMagic)),
          "{}: it does not begin with GGUF", f_.name_);
    const auto version = take<std::uint32_t>("the version");
    check(version != 0x02000000 && version != 0x03000000,
          "{}: it is written for processors that are big-endian", f_.name_);
    check(version == 2 || version == 3, "{}: it is of version {}; only 2 and 3 can be read",
          f_.name_, version);
    const auto tensors = take_count("tensors", kLeastTensor, GgufFile::kMaxNames);
    const auto keys = take_count("keys", kLeastKey, GgufFile::kMaxNames);
    for (std::uint64_t i = 0; i < keys; ++i) read_key();
    const std::uint64_t alignment = alignment_of_keys();
    for (std::uint64_t i = 0; i < tensors; ++i) read_tensor(alignment);
    f_.data_begin_ = aligned(at_, alignment);
    check_places(alignment);
  }

 private:
  // Copies the next bytes of the file; `what` they are is for messages.
  void take(void* to, std::size_t bytes, std::string_view what) {
    const std::uint64_t size = f_.file_->size();
    check(bytes <= size - at_, "{}: the file of {} bytes ends within {}: truncated?", f_.name_,
          size, what);
    check(at_ + bytes <= GgufFile::kMaxHeaderBytes,
          "{}: its keys and names take more than {} bytes, which no model needs", f_.name_,
          +GgufFile::kMaxHeaderBytes);
    auto* out = static_cast<char*>(to);
    while (bytes > 0) {
      if (at_ < buffer_begin_ || at_ >= buffer_begin_ + buffer_.size()) fill();
      const std::size_t offset = static_cast<std::size_t>(at_ - buffer_begin_);
      const std::size_t n = std::min(bytes, buffer_.size() - offset);
      std::memcpy(out, buffer_.data() + offset, n);
      out += n, at_ += n, bytes -= n;
    }
  }

  void fill() {
    constexpr std::uint64_t kBuffer = 1 << 16;
    buffer_.resize(static_cast<std::size_t>(std::min(kBuffer, f_.file_->size() - at_)));
    buffer_begin_ = at_;
    check(f_.file_->read(at_, buffer_.data(), buffer_.size()), "{}: reading it failed", f_.name_);
  }

  template <class T>
  T take(std::string_view what) {
    T value;
    take(&value, sizeof value, what);
    return value;
  }

  // A number of things that have `least` bytes each: what is left of the file has room for them.
  std::uint64_t take_count(std::string_view what, std::uint64_t least, std::uint64_t most) {
    const auto count = take<std::uint64_t>(what);
    const std::uint64_t left = f_.file_->size() - at_;
    check(count <= left / least, "{}: it says that it has {} {}, but {} bytes are left: truncated?",
          f_.name_, count, what, left);
    check(count <= most, "{}: {} {} are more than the {} that can be read", f_.name_, count, what,
          most);
    return count;
  }

  std::string take_text(std::string_view what) {
    const auto size = take_count(what, 1, GgufFile::kMaxHeaderBytes);
    std::string text(static_cast<std::size_t>(size), '\0');
    take(text.data(), text.size(), what);
    return text;
  }

  void read_key() {
    std::string key = take_text("bytes of a key's name");
    const auto type = take<std::uint32_t>(key);
    const std::uint64_t begin = at_;
    GgufValue value = take_value(type, key);
    f_.value_places_[key] = {type, begin, at_ - begin};
    if (const auto* text = std::get_if<std::string>(&value)) f_.metadata_[key] = *text;
    const auto [place, is_new] = f_.keys_.emplace(std::move(key), std::move(value));
    check(is_new, "{}: the key '{}' is there twice", f_.name_, place->first);
  }

  template <class T>
  std::int64_t take_whole(const std::string& key) {
    return static_cast<std::int64_t>(take<T>(key));
  }

  GgufValue take_value(std::uint32_t type, const std::string& key) {
    using Type = GgufValueType;
    switch (static_cast<Type>(type)) {
      case Type::boolean:
        return take<std::uint8_t>(key) != 0;
      case Type::text:
        return take_text(key);
      case Type::f32:
        return shortest(take<float>(key));
      case Type::f64:
        return take<double>(key);
      case Type::list:
        return take_list(key);
      default:
        return take_number(type, key);
    }
  }

  GgufValue take_number(std::uint32_t type, const std::string& key) {
    using Type = GgufValueType;
    switch (static_cast<Type>(type)) {
      case Type::u8:
        return take_whole<std::uint8_t>(key);
      case Type::i8:
        return take_whole<std::int8_t>(key);
      case Type::u16:
        return take_whole<std::uint16_t>(key);
      case Type::i16:
        return take_whole<std::int16_t>(key);
      case Type::u32:
        return take_whole<std::uint32_t>(key);
      case Type::i32:
        return take_whole<std::int32_t>(key);
      case Type::i64:
        return take_whole<std::int64_t>(key);
      case Type::u64: {
        const auto value = take<std::uint64_t>(key);
        if (value <= INT64_MAX) return static_cast<std::int64_t>(value);
        return static_cast<double>(value);
      }
      default:
        fail("{}: the key '{}' has a value of the unknown type {}", f_.name_, key, type);
    }
  }

  GgufValue take_list(const std::string& key) {
    using Type = GgufValueType;
    const auto type = static_cast<Type>(take<std::uint32_t>(key));
    check(type <= Type::f64, "{}: the key '{}' is a list of the unknown type {}", f_.name_, key,
          static_cast<std::uint32_t>(type));
    check(type != Type::list, "{}: the key '{}' is a list of lists, which cannot be read", f_.name_,
          key);
    constexpr std::uint64_t kLeast[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 0, 8, 8, 8};
    const auto least = kLeast[static_cast<std::size_t>(type)];
    const auto count = take_count("elements of " + key, least, GgufFile::kMaxArray);
    if (type == Type::text) {
      std::vector<std::string> texts;
      for (std::uint64_t i = 0; i < count; ++i) texts.push_back(take_text(key));
      texts.shrink_to_fit();  // they stay as long as the file is open
      return texts;
    }
    if (type == Type::f32 || type == Type::f64) {
      std::vector<double> numbers;
      for (std::uint64_t i = 0; i < count; ++i) {
        numbers.push_back(type == Type::f32 ? shortest(take<float>(key)) : take<double>(key));
      }
      return numbers;
    }
    std::vector<std::int64_t> numbers;
    for (std::uint64_t i = 0; i < count; ++i) {
      const GgufValue value = type == Type::boolean
                                  ? GgufValue(take_whole<std::uint8_t>(key))
                                  : take_number(static_cast<std::uint32_t>(type), key);
      const auto* whole = std::get_if<std::int64_t>(&value);
      check(whole != nullptr, "{}: the key '{}' has a number that is too large", f_.name_, key);
      numbers.push_back(*whole);
    }
    return numbers;
  }

  std::uint64_t alignment_of_keys() const {
    const auto found = f_.keys_.find("general.alignment");
    if (found == f_.keys_.end()) return kGgufAlignment;
    const auto* value = std::get_if<std::int64_t>(&found->second);
    const bool usable = value != nullptr && *value >= 1 && *value <= 1 << 20 &&
                        std::has_single_bit(static_cast<std::uint64_t>(*value));
    check(usable, "{}: general.alignment is not a power of two up to 1048576", f_.name_);
    return static_cast<std::uint64_t>(*value);
  }

  void read_tensor(std::uint64_t alignment) {
    const std::string name = take_text("bytes of a tensor's name");
    const auto rank = take<std::uint32_t>(name);
    check(rank <= kMostDimensions, "{}: tensor '{}' has {} dimensions; {} are the most", f_.name_,
          name, rank, kMostDimensions);
    std::vector<std::int64_t> dims;
    // Whatever the type, an element takes at least a bit. check_places() knows the type.
    std::uint64_t elements = 1;
    for (std::uint32_t i = 0; i < rank; ++i) {
      const auto dim = take<std::uint64_t>(name);
      check(dim >= 1 && dim <= 8 * f_.file_->size() / elements,
            "{}: tensor '{}' says that it has more elements than the file has bits, or none",
            f_.name_, name);
      elements *= dim;
      dims.insert(dims.begin(), static_cast<std::int64_t>(dim));
    }
    const StoredType& type = type_of(take<std::uint32_t>(name), name);
    const Shape shape{std::span<const std::int64_t>(dims)};
    const auto bytes = stored_bytes(type, shape);
    check(bytes.has_value(),
          "{}: tensor '{}' of type {} has rows that are not of whole blocks of {}", f_.name_, name,
          type.name, type.block);
    const auto offset = take<std::uint64_t>(name);
    check(offset % alignment == 0,
          "{}: tensor '{}' begins at byte {} of the data, which is not "
          "aligned to {}",
          f_.name_, name, offset, alignment);
    check(f_.places_.emplace(name, GgufFile::Place{offset, *bytes}).second,
          "{}: the tensor '{}' is there twice", f_.name_, name);
    f_.entries_.emplace(name, TensorSource::Entry::of(type, shape));
  }

  const StoredType& type_of(std::uint32_t number, const std::string& tensor) const {
    const auto known = stored_types_where([](const StoredType& t) { return t.ggml.has_value(); });
    for (const StoredType* type : known) {
      if (type->ggml == number) return *type;
    }
    fail("{}: tensor '{}' has the type {}; only {} can be read", f_.name_, tensor,
         name_of_number(number), names_of(known));
  }

  // Each tensor lies within the file, no two have a byte in common, and between them, before the
  // first and behind the last lies the padding alone. A gap would mean that one was larger when it
  // was written: that its type or its shape is not what is stored.
  void check_places(std::uint64_t alignment) const {
    const std::uint64_t size = f_.file_->size();
    const std::uint64_t data = size - std::min(size, f_.data_begin_);
    std::vector<std::pair<std::uint64_t, std::string_view>> order;
    for (const auto& [name, place] : f_.places_) {
      check(
          place.offset <= data && place.bytes <= data - place.offset,
          "{}: tensor '{}' has {} bytes from byte {} of the data on, but there are {}: truncated?",
          f_.name_, name, place.bytes, place.offset, data);
      order.emplace_back(place.offset, name);
    }
    std::sort(order.begin(), order.end());
    if (order.empty()) return;
    check(order[0].first == 0, "{}: {} bytes before the first tensor, '{}', belong to none",
          f_.name_, order[0].first, order[0].second);
    std::uint64_t end = 0;
    std::string_view before = "";
    for (const auto& [offset, name] : order) {
      check(end <= offset, "{}: the tensors '{}' and '{}' overlap", f_.name_, before, name);
      check(offset == aligned(end, alignment),
            "{}: {} bytes between the tensors '{}' and '{}' belong to neither: is the first of "
            "another type or shape?",
            f_.name_, offset - end, before, name);
      end = offset + f_.places_.at(std::string(name)).bytes;
      before = name;
    }
    // Some programs leave out the last padding.
    check(data == end || data >= aligned(end, alignment),
          "{}: it ends within the padding behind tensor '{}': truncated?", f_.name_,
          order.back().second);
    check(
        data <= aligned(end, alignment),
        "{}: {} bytes behind the last tensor, '{}', belong to no tensor: is it of another type or "
        "shape?",
        f_.name_, data - end, order.back().second);
  }

  GgufFile& f_;
  std::uint64_t at_ = 0;  // the next byte of the file
  std::vector<char> buffer_;
  std::uint64_t buffer_begin_ = 0;
};

GgufFile::GgufFile(const fs::path& path, Links links)
    : name_(path.string()), file_(std::in_place, path, links) {
  GgufReader(*this).read();
}

GgufStored GgufFile::stored_value(const std::string& key) const {
  const auto found = value_places_.find(key);
  check(found != value_places_.end(), "{}: there is no key '{}'", name_, key);
  const ValuePlace& place = found->second;
  GgufStored value{place.type, std::string(static_cast<std::size_t>(place.bytes), '\0')};
  check(file_->read(place.offset, value.bytes.data(), value.bytes.size()), "{}: reading it failed",
        name_);
  return value;
}

StoredTensor GgufFile::open(const std::string& tensor, const Entry& entry) const {
  const auto other = of_parts_.find(tensor);
  if (other != of_parts_.end()) return other->second->stored(tensor);
  return {*entry.type, entry.shape, *file_, data_begin_ + places_.at(tensor).offset,
          fmt::format("{}: tensor '{}'", name_, tensor)};
}

bool begins_as_gguf(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  try {
    const InputFile file(path);
    char magic[sizeof kGgufMagic];
    return file.read(0, magic, sizeof magic) &&
           std::equal(std::begin(magic), std::end(magic), std::begin(kGgufMagic));
  } catch (const Error&) {
    return false;
  }
}

}  // namespace tapegrad
