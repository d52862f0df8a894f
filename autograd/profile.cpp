#include "tapegrad/autograd/profile.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/autograd/kernels/internal/small_product.h"
#include "tapegrad/base/error.h"

namespace tapegrad {
namespace {

thread_local Profile* current = nullptr;

double now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

double product_flops() { return gemm_flops() + small_product_flops(); }

}  // namespace

Profile::Profile(const ProfileOptions& options) : before_(current) {
  current = this;
  if (!options.timeline) return;
  times_ = std::make_unique<Times>();
  times_->origin = now();
  times_->modules = ModuleNames(options.names);
}

Profile::~Profile() { current = before_; }

std::vector<Profile::Entry> Profile::entries() const {
  std::vector<Entry> list;
  for (const auto& [key, entry] : entries_) {
    list.push_back(entry);
    list.back().name = std::string(key.op) + (key.backward ? " backward" : "");
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const Entry& a, const Entry& b) { return a.seconds > b.seconds; });
  return list;
}

Profile::Timeline Profile::timeline() const {
  check(times_ != nullptr, "this profile has no timeline: ask for one with {{.timeline = true}}");
  Timeline line{times_->events, times_->loops.parts(), times_->left_out};
  // Events are noted at their ends: what is inside a part is noted before it.
  std::stable_sort(line.events.begin(), line.events.end(), [](const Event& a, const Event& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  for (std::vector<LoopLog::Part>& parts : line.threads) {
    for (LoopLog::Part& part : parts) part.begin -= times_->origin, part.end -= times_->origin;
  }
  return line;
}

void Profile::Times::add(Event event) {
  if (events.size() == kMostEvents) {
    ++left_out;
    return;
  }
  event.begin -= origin;
  event.end -= origin;
  events.push_back(std::move(event));
}

ProfiledOp::ProfiledOp(std::string_view op, bool backward)
    : profile_(current != nullptr && !current->busy_ ? current : nullptr), key_{op, backward} {
  if (profile_ == nullptr) return;
  profile_->busy_ = true;
  flops_ = product_flops();
  began_ = now();
}

void ProfiledOp::touches(Inputs tensors) {
  if (profile_ == nullptr) return;
  for (const Tensor& t : tensors) bytes_ += t.defined() ? static_cast<double>(t.bytes()) : 0;
}

void ProfiledOp::made(Inputs inputs, Inputs outputs) {
  touches(inputs);
  touches(outputs);
  if (profile_ == nullptr || profile_->times_ == nullptr) return;
  std::vector<std::uint64_t> ids;
  for (const Tensor& t : inputs) ids.push_back(t.defined() ? t.id() : 0);
  module_ = profile_->times_->modules.next(ids);
  auto& results = profile_->times_->of_results;
  if (outputs.empty() || !outputs[0].defined() || results.size() == Profile::kMostEvents) return;
  results[outputs[0].id()] = module_;
}

void ProfiledOp::is_of(std::uint64_t output) {
  if (profile_ == nullptr || profile_->times_ == nullptr) return;
  const auto made = profile_->times_->of_results.find(output);
  if (made != profile_->times_->of_results.end()) module_ = made->second;
}

void ProfiledOp::multiplies_by(const void* matrix) {
  if (current != nullptr && current->times_ != nullptr) current->times_->matrix = matrix;
}

ProfiledOp::~ProfiledOp() {
  if (profile_ == nullptr) return;
  const double end = now();
  profile_->busy_ = false;
  auto& entries = profile_->entries_;
  auto it = std::find_if(entries.begin(), entries.end(),
                         [&](const auto& entry) { return entry.first == key_; });
  if (it == entries.end()) it = entries.insert(it, {key_, {}});
  Profile::Entry& entry = it->second;
  const double flops = product_flops() - flops_;
  ++entry.calls;
  entry.seconds += end - began_;
  entry.flops += flops;
  entry.bytes += bytes_;
  if (profile_->times_ == nullptr) return;
  profile_->times_->add({.name = key_.op,
                         .backward = key_.backward,
                         .begin = began_,
                         .end = end,
                         .flops = flops,
                         .bytes = bytes_,
                         .module = std::move(module_.name),
                         .has_parameter = module_.has_parameter,
                         .matrix = std::exchange(profile_->times_->matrix, nullptr)});
}

ProfiledPart::ProfiledPart(std::string_view name)
    : profile_(current != nullptr && current->times_ != nullptr ? current : nullptr), name_(name) {
  if (profile_ == nullptr) return;
  profile_->times_->modules.begin();
  began_ = now();
}

ProfiledPart::~ProfiledPart() {
  if (profile_ == nullptr) return;
  profile_->times_->add({.name = name_, .is_part = true, .begin = began_, .end = now()});
}

}  // namespace tapegrad
