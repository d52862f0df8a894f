#include "tapegrad/autograd/profile.h"

#include <algorithm>
#include <chrono>

#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/autograd/kernels/small_product.h"

namespace tapegrad {
namespace {

thread_local Profile* current = nullptr;

double now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

double product_flops() { return gemm_flops() + small_product_flops(); }

}  // namespace

Profile::Profile() : before_(current) { current = this; }
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

ProfiledOp::~ProfiledOp() {
  if (profile_ == nullptr) return;
  const double seconds = now() - began_;
  profile_->busy_ = false;
  auto& entries = profile_->entries_;
  auto it = std::find_if(entries.begin(), entries.end(),
                         [&](const auto& entry) { return entry.first == key_; });
  if (it == entries.end()) it = entries.insert(it, {key_, {}});
  Profile::Entry& entry = it->second;
  ++entry.calls;
  entry.seconds += seconds;
  entry.flops += product_flops() - flops_;
  entry.bytes += bytes_;
}

}  // namespace tapegrad
