#include "tapegrad/optim/meetings/internal/file_meetings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "tapegrad/base/file.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/optim/internal/sent_values.h"
#include "tapegrad/optim/internal/shares.h"
#include "tapegrad/optim/internal/without_tensors.h"
#include "tapegrad/optim/meetings/hold_meeting.h"
#include "tapegrad/optim/optimizer_state.h"
#include "tapegrad/optim/processes/internal/outer_step.h"

namespace tapegrad::optim {
namespace {

// Keys of a checkpoint's metadata, and the beginning of names.
const std::string kHeld = "meetings.held", kBase = "meetings.base", kMade = "meetings.made",
                  kSteps = "meetings.local_steps", kGroup = "meetings.group";
const std::string kWeights = "local_weights.";

const std::string& word_in(const TensorSource& file, const std::string& key) {
  const auto it = file.metadata().find(key);
  check(it != file.metadata().end(),
        "{}: the run has not met others through files so far, and cannot begin to when it is "
        "resumed: begin a new one with its weights",
        file.name());
  return it->second;
}

std::int64_t number_in(const TensorSource& file, const std::string& key, std::int64_t most) {
  const auto number = number_of<std::int64_t>(word_in(file, key));
  check(number && *number >= 0 && *number <= most, "{}: {} is not a number from 0 to {}",
        file.name(), key, most);
  return *number;
}

void copy_to(const Tensor& from, Tensor to) {
  std::copy_n(from.data<float>(), from.numel(), to.mutable_data<float>());
}

}  // namespace

std::unique_ptr<GradientSync> meet_by_files(std::unique_ptr<GradientSync> sync,
                                            const NamedTensors& parameters, const LocalSteps& local,
                                            Processes* processes, CommDType sent) {
  return std::make_unique<FileMeetings>(std::move(sync), parameters, local, processes, sent);
}

FileMeetings::FileMeetings(std::unique_ptr<GradientSync> sync, const NamedTensors& parameters,
                           const LocalSteps& local, Processes* processes, CommDType sent)
    : sync_(std::move(sync)),
      parameters_(parameters),
      local_(local),
      processes_(processes),
      sent_(sent),
      base_(digest_of_start(parameters)) {
  static_cast<void>(sizes_of(parameters));  // all are f32
  check(local.steps >= 1, "local steps must be 1 or more before groups meet, not {}", local.steps);
  check(!leads() || is_folder(place().folder),
        "{}: groups meet through files in this folder, and it is not there",
        place().folder.string());
  if (leads()) key_ = meeting_key(place().key);
  for (const auto& [name, t] : parameters_) anchor_.push_back(t.detach().clone());
}

MeetingTerms FileMeetings::terms() const {
  return {place().groups, sent_, local_.steps, local_.learning_rate, local_.momentum};
}

void FileMeetings::step(double lr, double grad_factor, double decay_factor) {
  check(!meeting_due(), "the groups must meet before the next step");
  sync_->step(lr, grad_factor, decay_factor);
  ++made_;
}

NamedTensors FileMeetings::agreed(NamedTensors tensors) const {
  std::map<std::string, const Tensor*> anchors;
  for (std::size_t p = 0; p < parameters_.size(); ++p) anchors[parameters_[p].first] = &anchor_[p];
  for (auto& [name, t] : tensors) {
    if (const auto it = anchors.find(name); it != anchors.end()) t = *it->second;
  }
  return tensors;
}

void FileMeetings::restart() {
  fail(
      "a run whose group meets others through files cannot go back: they have gone on. Begin a new "
      "run with the model that this one keeps");
}

// Writes what the weights are below the anchor. The same weights make the same file, so a group
// that was stopped may write it again.
void FileMeetings::hand_in() {
  MeetingFile file{{terms(), held_ + 1, place().group, {}, base_, {}}, {}, {}};
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const auto& [name, weights] = parameters_[p];
    const std::int64_t n = weights.numel();
    Tensor difference = Tensor::empty({n});
    subtract(anchor_[p].data<float>(), weights.data<float>(), difference.mutable_data<float>(), n);
    file.tensors.emplace(name, packed(sent_, difference));
  }
  write_meeting_file(difference_path(place().folder, held_ + 1, place().group), file, key_);
  handed_in_ = true;
}

// The step of the next meeting, if it has arrived, whole and for this group. Otherwise `why` says
// what is wrong with what has.
std::optional<MeetingFile> FileMeetings::read_next(std::string& why) const {
  const std::filesystem::path path = step_path(place().folder, held_ + 1);
  try {
    if (!path_exists(path)) return std::nullopt;
    std::int64_t bytes = 0;
    for (const auto& [name, t] : parameters_) bytes += bytes_sent(sent_, t.numel());
    MeetingFile file = read_meeting_file(path, key_, bytes);
    const MeetingRecord& r = file.record;
    check(r.group.empty() && r.meeting == held_ + 1, "{}: it is not what its name says",
          path.string());
    check(r.terms == terms(),
          "{}: it is of other groups, local steps, --comm-dtype or values of the outer step",
          path.string());
    check(r.base == base_, "{}: it is not of the meeting that follows the last one of this group",
          path.string());
    check(file.tensors.size() == parameters_.size(), "{}: it is of another model", path.string());
    for (const auto& [name, t] : parameters_) {
      const auto it = file.tensors.find(name);
      check(it != file.tensors.end() && it->second.numel() == bytes_sent(sent_, t.numel()),
            "{}: it is of another model: '{}' differs", path.string(), name);
      static_cast<void>(unpacked(file, name, t.numel()));  // all are finite
    }
    return file;
  } catch (const Error& error) {
    why = printable(error.what());  // names in a foreign file may be anything
    return std::nullopt;
  }
}

// Gives all processes what rank 0 has read.
void FileMeetings::share(MeetingFile& step) const {
  for (const auto& [name, t] : parameters_) {
    Tensor& packed = step.tensors[name];
    if (!leads()) packed = Tensor::empty({bytes_sent(sent_, t.numel())}, DType::u8);
    processes_->broadcast(
        std::as_writable_bytes(std::span(packed.mutable_data<std::uint8_t>(), packed.bytes())));
  }
}

void FileMeetings::take(const MeetingFile& step) {
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    Tensor weights = parameters_[p].second;
    const std::int64_t n = weights.numel();
    const Tensor values = unpacked(step, parameters_[p].first, n);
    move_anchor(values.data<float>(), anchor_[p].mutable_data<float>(),
                weights.mutable_data<float>(), n);
  }
  base_ = step.digest;
  made_ = 0;
  ++held_;
  handed_in_ = false;
}

// True if the next meeting was held, and its step is taken.
bool FileMeetings::take_next(std::string& words) {
  std::string why;
  std::optional<MeetingFile> step = leads() ? read_next(why) : std::nullopt;
  if (!why.empty()) words += (words.empty() ? "" : "; ") + why;
  if (processes_ != nullptr) {
    const std::string digest = processes_->all_gather(step ? step->digest : "").front();
    if (digest.empty()) return false;
    if (!step) step.emplace(MeetingFile{{terms()}, {}, digest});
    share(*step);
  }
  if (!step) return false;
  const std::vector<std::string>& present = step->record.present;
  const bool counts = std::count(present.begin(), present.end(), place().group) > 0;
  const std::string lost =
      made_ > 0 ? fmt::format(": the last {} steps of group {} do not count", made_, place().group)
                : "";
  take(*step);
  words += fmt::format("{}meeting {} of {}{}", words.empty() ? "" : "; ", held_,
                       fmt::join(present, ", "), counts ? "" : lost);
  return true;
}

std::string FileMeetings::meet() {
  if (made_ > 0 && !meeting_due()) return {};
  std::string words;
  while (take_next(words)) {
  }
  if (!meeting_due()) return words;
  if (leads() && !handed_in_) hand_in();
  return fmt::format("{}{}meeting {}: {} is written, and {} is waited for: tapegrad meet makes it",
                     words, words.empty() ? "" : "; ", held_ + 1,
                     difference_path(place().folder, held_ + 1, place().group).string(),
                     step_path(place().folder, held_ + 1).string());
}

void FileMeetings::save(const std::string& path, Metadata metadata,
                        const NamedTensors& beside) const {
  NamedTensors more = beside;
  for (const auto& [name, t] : parameters_) {
    if (made_ > 0) more.emplace_back(kWeights + name, t.detach());
  }
  metadata[kHeld] = std::to_string(held_);
  metadata[kBase] = base_;
  metadata[kMade] = std::to_string(made_);
  metadata[kSteps] = std::to_string(local_.steps);
  metadata[kGroup] = place().group;
  sync_->save(path, std::move(metadata), more);
}

void FileMeetings::load(const TensorSource& file) {
  constexpr std::int64_t most = std::int64_t{1} << 40;
  const std::int64_t held = number_in(file, kHeld, most), steps = number_in(file, kSteps, most),
                     made = number_in(file, kMade, steps);
  check(steps == local_.steps, "{}: its group meets others every {} steps, and not every {}",
        file.name(), steps, local_.steps);
  check(word_in(file, kGroup) == place().group, "{}: it is of another group than {}", file.name(),
        place().group);
  const std::string base = word_in(file, kBase);
  for (const auto& [name, t] : parameters_) {
    if (made > 0) OptimizerState::check_entry(file, kWeights + name, t.shape(), t.dtype());
  }
  sync_->load(WithoutTensors(file, kWeights, made > 0 ? parameters_ : NamedTensors()));
  for (const auto& [name, t] : parameters_) {
    if (made > 0) copy_to(file.read(kWeights + name), t);
  }
  held_ = held, made_ = made, base_ = base;
  handed_in_ = false;
}

}  // namespace tapegrad::optim
