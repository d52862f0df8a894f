#include "tapegrad/optim/meetings/hold_meeting.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <system_error>

#include "tapegrad/autograd/tensor/stored_type.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/option_schema.h"
#include "tapegrad/optim/internal/sent_values.h"
#include "tapegrad/optim/meetings/internal/meeting_file.h"
#include "tapegrad/optim/processes/internal/outer_step.h"

namespace tapegrad::optim {
namespace {

namespace fs = std::filesystem;

using Sizes = std::map<std::string, std::int64_t>;  // elements of each parameter
using Tensors = std::map<std::string, Tensor>;      // of f32

// The elements of so many bytes of a file. Error if there is no such number.
std::int64_t elements_in(CommDType sent, std::int64_t bytes, const std::string& name) {
  std::int64_t n = bytes / bytes_sent(sent, 1);
  if (sent == CommDType::int8) {  // whole groups have kScaled elements and a scale
    const std::int64_t group = bytes_sent(sent, kScaled), scale = group - kScaled;
    n = bytes - scale * ((bytes + group - 1) / group);
  }
  check(n >= 0 && bytes_sent(sent, n) == bytes, "'{}' has {} bytes, which are no {}", name, bytes,
        name_of_enum(sent));
  return n;
}

Sizes sizes_of(const MeetingFile& file) {
  Sizes sizes;
  for (const auto& [name, t] : file.tensors)
    sizes[name] = elements_in(file.record.terms.sent, t.numel(), name);
  return sizes;
}

// A file without its tensors.
struct Outline {
  MeetingRecord record;
  Sizes sizes;
  std::string digest;

  explicit Outline(const MeetingFile& file)
      : record(file.record), sizes(sizes_of(file)), digest(file.digest) {}
  std::int64_t bytes() const {  // of the tensors
    std::int64_t sum = 0;
    for (const auto& [name, n] : sizes) sum += bytes_sent(record.terms.sent, n);
    return sum;
  }
};

// What a folder has for its next meeting.
struct Next {
  std::optional<Outline> last;             // the step of the meeting before
  std::map<std::string, Outline> arrived;  // sound differences, by group
  Arrivals arrivals;

  const Outline& first() const { return arrived.begin()->second; }
};

// The last step that is sound.
std::optional<Outline> last_step(const std::vector<fs::path>& files, const std::string& key,
                                 std::vector<std::string>& refused) {
  std::map<std::int64_t, fs::path, std::greater<>> steps;
  for (const fs::path& path : files) {
    const auto meeting = meeting_of(path.filename().string(), "meeting-", ".safetensors");
    if (meeting) steps[*meeting] = path;
  }
  for (const auto& [meeting, path] : steps) {
    try {
      const MeetingFile file = read_meeting_file(path, key);
      check(file.record.group.empty() && file.record.meeting == meeting,
            "{}: it is not what its name says", path.string());
      return Outline(file);
    } catch (const Error& error) {
      refused.push_back(error.what());
    }
  }
  return std::nullopt;
}

// Error if a difference does not go with another one, or with the last step.
void check_fit(const Outline& own, const Outline& other, const std::string& base) {
  check(own.record.terms == other.record.terms,
        "it is of other groups, local steps, --comm-dtype or values of the outer step");
  check(own.sizes == other.sizes, "it is of a model of another shape");
  check(own.record.base == base, "its group has not the same weights to begin with");
}

// The difference of a group whose file has this name, for the meeting after the last one.
Outline open_difference(const fs::path& path, const std::string& key, std::int64_t meeting,
                        const std::optional<Outline>& last) {
  const MeetingFile file =
      read_meeting_file(path, key, last ? std::optional(last->bytes()) : std::nullopt);
  try {
    const MeetingRecord& r = file.record;
    check(!r.group.empty() && r.meeting == meeting &&
              path.filename() == difference_path({}, meeting, r.group),
          "it is not what its name says");
    const Outline own(file);
    if (last) check_fit(own, *last, last->digest);
    for (const auto& [name, n] : own.sizes) static_cast<void>(unpacked(file, name, n));
    return own;
  } catch (const Error& error) {
    fail("{}: {}", path.string(), error.what());
  }
}

Next look(const fs::path& folder, const std::string& key) {
  Next next;
  Arrivals& a = next.arrivals;
  std::vector<fs::path> files = list_folder(folder);
  std::sort(files.begin(), files.end());  // and so are the messages
  next.last = last_step(files, key, a.refused);
  if (next.last) a.meeting = next.last->record.meeting + 1;
  const std::string before = difference_path({}, a.meeting, "").stem().string();
  for (const fs::path& path : files) {
    const std::string name = path.filename().string();
    if (!name.starts_with(before) || path.extension() != ".safetensors") continue;
    std::optional<Outline> own;
    try {
      own = open_difference(path, key, a.meeting, next.last);
    } catch (const Error& error) {
      a.refused.push_back(error.what());
      continue;
    }
    if (!next.last && !next.arrived.empty()) {
      try {
        check_fit(*own, next.first(), next.first().record.base);
      } catch (const Error& error) {
        fail(
            "{} does not fit to that of group {}: {}. All groups must begin with the same weights "
            "and options. Remove the file that is wrong",
            path.string(), next.first().record.group, error.what());
      }
    }
    next.arrived.emplace(own->record.group, std::move(*own));
  }
  if (!next.last && next.arrived.empty()) return next;
  const Outline& known = next.last ? *next.last : next.first();
  for (const std::string& group : known.record.terms.groups)
    (next.arrived.contains(group) ? a.present : a.missing).push_back(group);
  return next;
}

// The mean over the groups that are present, in their order, as processes make it.
Tensors mean_of(const Next& next, const fs::path& folder, const std::string& key) {
  Tensors mean;
  const Sizes& sizes = next.first().sizes;
  for (const auto& [name, n] : sizes) mean.emplace(name, Tensor::zeros({n}));
  const Arrivals& a = next.arrivals;
  for (const std::string& group : a.present) {
    const fs::path path = difference_path(folder, a.meeting, group);
    const MeetingFile file = read_meeting_file(path, key, next.first().bytes());
    check(file.digest == next.arrived.at(group).digest, "{}: it was replaced while it was read",
          path.string());
    for (auto& [name, sum] : mean) add_to(sum, 0, unpacked(file, name, sizes.at(name)));
  }
  for (auto& [name, sum] : mean) divide(sum, std::ssize(a.present));
  return mean;
}

Tensors momentum_before(const Next& next, const fs::path& folder) {
  Tensors momentum;
  if (!next.last) {
    for (const auto& [name, n] : next.first().sizes) momentum.emplace(name, Tensor::zeros({n}));
    return momentum;
  }
  const fs::path path = momentum_path(folder, next.last->record.meeting);
  check(path_exists(path),
        "{} is missing: the outer momentum is where the last meeting was held. Hold this one there",
        path.string());
  const auto file = open_safetensors(path.string(), Links::refused);
  for (const auto& [name, n] : next.last->sizes) {
    const auto& entry = file->at(name);
    check(entry.dtype == DType::f32 && entry.shape == Shape{n}, "{}: '{}' is of another shape",
          path.string(), name);
    momentum.emplace(name, file->read(name));
  }
  check(digest_of(momentum) == next.last->record.momentum,
        "{}: it is not the momentum of the last meeting", path.string());
  return momentum;
}

// Momenta of earlier meetings are not needed any more.
void remove_momenta_before(const fs::path& folder, std::int64_t meeting) {
  for (const fs::path& path : list_folder(folder)) {
    const auto of = meeting_of(path.filename().string(), "momentum-", ".safetensors");
    std::error_code ignored;
    if (of && *of < meeting) fs::remove(path, ignored);
  }
}

}  // namespace

std::vector<std::string> group_names(std::string_view text) {
  std::vector<std::string> names = names_in(text);
  check(names.size() >= 2, "two or more groups meet, and not {}", names.size());
  return names;
}

std::string meeting_key(const fs::path& file) {
  if (file.empty()) return {};
  constexpr std::int64_t most = 1 << 16;
  constexpr std::size_t least = 32;
  std::string key = read_file(file, most);
  key.erase(key.find_last_not_of(" \t\r\n") + 1);
  check(key.size() >= least,
        "{}: a key has {} bytes or more, as `openssl rand -hex 32` makes one, and this has {}",
        file.string(), least, key.size());
  return key;
}

Arrivals find_arrivals(const fs::path& folder, const std::string& key) {
  return look(folder, key).arrivals;
}

HeldMeeting hold_meeting(const fs::path& folder, const std::string& key, MissingGroups missing) {
  const Next next = look(folder, key);
  const Arrivals& a = next.arrivals;
  check(!next.arrived.empty(), "{}: no group has a file for meeting {} there", folder.string(),
        a.meeting);
  check(missing == MissingGroups::left_out || a.missing.empty(),
        "{}: for meeting {}, the file of {} is missing. Bring it there, or leave these groups out: "
        "tapegrad meet --wait 0",
        folder.string(), a.meeting, fmt::join(a.missing, ", "));
  const fs::path path = step_path(folder, a.meeting);
  // A meeting is held once. A stranger's file of that name is replaced.
  check(!path_exists(path) || !path_exists(momentum_path(folder, a.meeting)),
        "{} is broken or of another key, but meeting {} was held here: take the file from a group "
        "that has it",
        path.string(), a.meeting);
  const MeetingRecord& one = next.first().record;
  Tensors step = mean_of(next, folder, key), momentum = momentum_before(next, folder);
  const LocalSteps local{one.terms.steps, one.terms.learning_rate, one.terms.momentum};
  MeetingFile file{{one.terms, a.meeting, "", a.present, one.base, ""}, {}, {}};
  for (auto& [name, gradient] : step) {
    make_outer_step(local, gradient, momentum.at(name));
    const std::int64_t n = gradient.numel();
    file.tensors.emplace(name, packed(one.terms.sent, gradient));
    gradient = {};
    static_cast<void>(unpacked(file, name, n));  // finite numbers may be too large for their sum
  }
  file.record.momentum = digest_of(momentum);
  // The step comes last, and makes the meeting. A momentum without it is replaced by the next call.
  save_safetensors(momentum_path(folder, a.meeting).string(), {momentum.begin(), momentum.end()});
  write_meeting_file(path, file, key);
  remove_momenta_before(folder, a.meeting);
  return {a, path};
}

}  // namespace tapegrad::optim
