#include "tapegrad/optim/meetings/internal/meeting_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "tapegrad/autograd/internal/finite.h"
#include "tapegrad/base/internal/sha256.h"
#include "tapegrad/base/memory/available_memory.h"
#include "tapegrad/base/option_schema.h"
#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/optim/internal/sent_values.h"

namespace tapegrad::optim {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "tapegrad-meeting-1";
const std::string kDigest = "sha256", kSignature = "hmac_sha256";

// A text or a tensor, with its size before it, so that no two lists of them are the same bytes.
void add(Sha256& hash, std::string_view bytes) {
  const std::uint64_t size = bytes.size();
  std::string before;
  for (int shift = 0; shift < 64; shift += 8) before += static_cast<char>(size >> shift & 0xff);
  hash.add(before);
  hash.add(bytes);
}

std::string_view bytes_of(const Tensor& t) {
  return dispatch_all(t.dtype(), [&](auto zero) {
    using T = decltype(zero);
    return std::string_view(reinterpret_cast<const char*>(t.data<T>()), t.bytes());
  });
}

void add(Sha256& hash, const std::map<std::string, Tensor>& tensors) {
  for (const auto& [name, t] : tensors) {
    add(hash, name);
    add(hash, bytes_of(t));
  }
}

// Of all that is said beside the digest itself and its signature.
std::string digest_of(Metadata words, const PackedTensors& tensors) {
  words.erase(kDigest);
  words.erase(kSignature);
  Sha256 hash;
  for (const auto& [name, value] : words) {
    add(hash, name);
    add(hash, value);
  }
  add(hash, "");  // between words and tensors
  add(hash, tensors);
  return hex_of(hash.digest());
}

std::string signature_of(const std::string& digest, const std::string& key) {
  return hmac_sha256(key, fmt::format("{} {}", kFormat, digest));
}

std::string joined(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ","));
}

Metadata words_of(const MeetingRecord& r) {
  return {{"format", std::string(kFormat)},
          {"kind", r.group.empty() ? "step" : "difference"},
          {"meeting", std::to_string(r.meeting)},
          {"groups", joined(r.terms.groups)},
          {"group", r.group},
          {"present", joined(r.present)},
          {"comm_dtype", std::string(name_of_enum(r.terms.sent))},
          {"local_steps", std::to_string(r.terms.steps)},
          {"outer_learning_rate", fmt::format("{}", r.terms.learning_rate)},
          {"outer_momentum", fmt::format("{}", r.terms.momentum)},
          {"base", r.base},
          {"momentum", r.momentum}};
}

bool is_digest(std::string_view text) {
  return text.size() == 2 * Sha256::kDigest &&
         text.find_first_not_of("0123456789abcdef") == text.npos;
}

// Reads the words of a file; whatever is not as words_of() writes it is an Error.
class Words {
 public:
  explicit Words(const TensorSource& file) : file_(file) {}

  const std::string& text(const std::string& name) const {
    const auto it = file_.metadata().find(name);
    check(it != file_.metadata().end(), "{}: it is no file of a meeting: '{}' is missing",
          file_.name(), name);
    return it->second;
  }
  template <class T>
  T number(const std::string& name, T least, T most) const {
    const auto value = number_of<T>(text(name));
    check(value && *value >= least && *value <= most, "{}: '{}' is not a number from {} to {}",
          file_.name(), name, least, most);
    return *value;
  }
  std::vector<std::string> groups(const std::string& name) const {
    try {
      return text(name).empty() ? std::vector<std::string>() : names_in(text(name));
    } catch (const Error&) {
      fail("{}: '{}' is no list of names of groups", file_.name(), name);
    }
  }
  std::string digest(const std::string& name, bool may_be_empty = false) const {
    check(is_digest(text(name)) || (may_be_empty && text(name).empty()),
          "{}: '{}' is no SHA-256 in hexadecimal", file_.name(), name);
    return text(name);
  }

 private:
  const TensorSource& file_;
};

MeetingRecord record_of(const TensorSource& file) {
  constexpr std::int64_t most = std::int64_t{1} << 40;
  const Words words(file);
  MeetingRecord r;
  r.meeting = words.number<std::int64_t>("meeting", 1, most);
  r.terms.groups = words.groups("groups");
  r.terms.steps = words.number<std::int64_t>("local_steps", 1, most);
  r.terms.learning_rate = words.number<double>("outer_learning_rate", 0, 1e30);
  r.terms.momentum = words.number<double>("outer_momentum", 0, 1);
  const auto sent = enum_of<CommDType>(words.text("comm_dtype"));
  check(sent.has_value(), "{}: 'comm_dtype' is not known", file.name());
  r.terms.sent = *sent;
  r.base = words.digest("base");
  r.present = words.groups("present");
  r.group = words.text("group");
  const bool step = words.text("kind") == "step";
  r.momentum = words.digest("momentum", !step);
  const auto is_group = [&](const std::string& name) {
    return std::count(r.terms.groups.begin(), r.terms.groups.end(), name) == 1;
  };
  check(step ? r.group.empty() && !r.present.empty() &&
                   std::all_of(r.present.begin(), r.present.end(), is_group)
             : is_group(r.group) && r.present.empty(),
        "{}: it is not of groups that meet", file.name());
  return r;
}

PackedTensors tensors_of(const TensorSource& file, std::optional<std::int64_t> expected) {
  std::int64_t bytes = 0;
  for (const auto& [name, entry] : file.entries()) {
    check(entry.dtype == DType::u8 && entry.shape.rank() == 1,
          "{}: it is no file of a meeting: '{}' is of {}", file.name(), name, name_of(entry.dtype));
    bytes += entry.shape.numel();
  }
  check(!expected || bytes == *expected, "{}: it is of another model or --comm-dtype", file.name());
  const auto available = available_memory();
  check(!available || static_cast<double>(bytes) <= available->bytes,
        "{}: it is larger than the memory that is free", file.name());
  PackedTensors tensors;
  for (const auto& [name, entry] : file.entries()) tensors.emplace(name, file.read(name));
  return tensors;
}

std::string number_text(std::int64_t meeting) { return fmt::format("{:06}", meeting); }

}  // namespace

fs::path difference_path(const fs::path& folder, std::int64_t meeting, std::string_view group) {
  return folder / fmt::format("meeting-{}-{}.safetensors", number_text(meeting), group);
}
fs::path step_path(const fs::path& folder, std::int64_t meeting) {
  return folder / fmt::format("meeting-{}.safetensors", number_text(meeting));
}
fs::path momentum_path(const fs::path& folder, std::int64_t meeting) {
  return folder / fmt::format("momentum-{}.safetensors", number_text(meeting));
}

std::optional<std::int64_t> meeting_of(std::string_view name, std::string_view before,
                                       std::string_view after) {
  if (!name.starts_with(before) || !name.ends_with(after)) return std::nullopt;
  if (name.size() < before.size() + after.size()) return std::nullopt;
  const std::string_view number =
      name.substr(before.size(), name.size() - before.size() - after.size());
  const auto meeting = number_of<std::int64_t>(number);
  const bool ours = meeting && *meeting >= 1 && number == number_text(*meeting);
  return ours ? meeting : std::nullopt;
}

std::vector<std::string> names_in(std::string_view text) {
  constexpr std::size_t most = 32, most_groups = 1000;
  constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view name = text.substr(begin, end - begin);
    check(!name.empty() && name.size() <= most && name.find_first_not_of(letters) == name.npos,
          "names of groups have 1 to {} letters, digits, '_' and '-', and commas between them",
          most);
    check(names.size() < most_groups, "at most {} groups can meet", most_groups);
    names.emplace_back(name);
    begin = end + 1;
  }
  check(std::set(names.begin(), names.end()).size() == names.size(),
        "two groups have the same name: {}", text);
  return names;
}

std::string digest_of_start(const NamedTensors& parameters) {
  Sha256 hash;
  add(hash, kFormat);
  for (const auto& [name, t] : parameters) {
    add(hash, name);
    add(hash, fmt::format("{}", fmt::join(t.shape().begin(), t.shape().end(), ",")));
    add(hash, bytes_of(t));
  }
  return hex_of(hash.digest());
}

std::string digest_of(const std::map<std::string, Tensor>& tensors) {
  Sha256 hash;
  add(hash, tensors);
  return hex_of(hash.digest());
}

Tensor packed(CommDType sent, const Tensor& values) {
  const std::int64_t n = values.numel();
  Tensor bytes = Tensor::empty({bytes_sent(sent, n)}, DType::u8);
  pack(sent, values.data<float>(), bytes.mutable_data<std::uint8_t>(), n);
  return bytes;
}

Tensor unpacked(const MeetingFile& file, const std::string& name, std::int64_t n) {
  Tensor values = Tensor::empty({n});
  unpack(file.record.terms.sent, file.tensors.at(name).data<std::uint8_t>(),
         values.mutable_data<float>(), n);
  check(all_finite(values), "'{}' has values that are not numbers", name);
  return values;
}

std::string write_meeting_file(const fs::path& path, const MeetingFile& file,
                               const std::string& key) {
  Metadata words = words_of(file.record);
  const std::string digest = digest_of(words, file.tensors);
  words[kDigest] = digest;
  if (!key.empty()) words[kSignature] = signature_of(digest, key);
  save_safetensors(path.string(), {file.tensors.begin(), file.tensors.end()}, words);
  return digest;
}

MeetingFile read_meeting_file(const fs::path& path, const std::string& key,
                              std::optional<std::int64_t> bytes) {
  const auto source = open_safetensors(path.string(), Links::refused);
  const Words words(*source);
  check(words.text("format") == kFormat, "{}: it is no file of a meeting of this version",
        path.string());
  MeetingFile file{{}, tensors_of(*source, bytes), {}};
  file.digest = digest_of(source->metadata(), file.tensors);
  check(words.text(kDigest) == file.digest,
        "{}: its contents are not those that its checksum is of: it is broken, or has not arrived "
        "as a whole",
        path.string());
  if (!key.empty()) {
    check(source->metadata().contains(kSignature), "{}: it is not signed", path.string());
    check(equal_secrets(words.text(kSignature), signature_of(file.digest, key)),
          "{}: it is signed with another key, or changed since", path.string());
  }
  file.record = record_of(*source);  // a stranger's words are read only now
  return file;
}

}  // namespace tapegrad::optim
