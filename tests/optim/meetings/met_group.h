#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tapegrad/optim/gradient_sync.h"
#include "tapegrad/optim/meetings/hold_meeting.h"
#include "tapegrad/tests/optim/two_tensors.h"
#include "tapegrad/tests/temp_folder.h"

namespace tapegrad::testing {

inline constexpr std::int64_t kLocalSteps = 3;
inline constexpr double kMetRate = 0.005;

// One of the groups a, b and c, which meet through files: two tensors, whose gradients differ from
// group to group, and the object that makes their steps.
struct MetGroup {
  std::string name;
  optim::LocalSteps local{.steps = kLocalSteps};
  optim::CommDType sent;
  TwoTensors tensors{DType::f32};
  std::unique_ptr<optim::GradientSync> sync;
  int made = 0;

  MetGroup(const std::filesystem::path& folder, std::string group,
           optim::CommDType comm = optim::CommDType::f32, const std::filesystem::path& key = {},
           std::string_view all = "a,b,c")
      : name(std::move(group)), sent(comm) {
    local.place = optim::MeetingPlace{folder, name, optim::group_names(all), key};
    begin();
  }
  // The object takes the anchor from the tensors.
  void begin() {
    sync = optim::make_gradient_sync(tensors.named(), optim::GroupRules{}, nullptr,
                                     {.sent = sent, .local = local});
  }
  // Goes on with what a checkpoint has of this group.
  void resume() {
    const TempFolder folder;
    const std::string path = (folder / "optimizer.safetensors").string();
    sync->save(path, {}, {});
    const NamedTensors model = sync->agreed(tensors.named());
    TwoTensors read(DType::f32);
    for (std::size_t i = 0; i < model.size(); ++i) {
      Tensor to = i == 0 ? read.p : read.b;
      const auto values = model[i].second.values<float>();
      std::copy(values.begin(), values.end(), to.mutable_data<float>());
    }
    tensors = read;
    begin();
    sync->load(*open_safetensors(path));
  }

  // One step, by numbers that no other group and no other step has.
  void step() {
    const int t = 1 + 3 * made++ + (name.front() - 'a');
    sync->round(1, [&](const auto&) { tensors.backward(t); });
    static_cast<void>(sync->measure_clipping(0));
    sync->step(kMetRate, 1);
    sync->zero_grad();
  }
  // Makes local steps until a meeting is due, and hands in what it is made of.
  std::string train() {
    while (!sync->meeting_due()) step();
    return sync->meet();
  }
};

inline std::filesystem::path difference_file(const std::filesystem::path& folder, int meeting,
                                             const std::string& group) {
  return folder / fmt::format("meeting-{:06}-{}.safetensors", meeting, group);
}
inline std::filesystem::path step_file(const std::filesystem::path& folder, int meeting) {
  return folder / fmt::format("meeting-{:06}.safetensors", meeting);
}

// Ways to break a file, and what becomes of it.
inline std::vector<std::pair<std::string, std::string>> broken_forms(const std::string& bytes) {
  std::vector<std::pair<std::string, std::string>> forms = {
      {"empty", ""},
      {"half of it", bytes.substr(0, bytes.size() / 2)},
      {"all but the last byte", bytes.substr(0, bytes.size() - 1)},
      {"one byte more", bytes + "x"},
      {"no file of tensors", "hello"}};
  for (std::size_t i = 0; i < 40; ++i) {
    const std::size_t at = i * (bytes.size() - 1) / 39;
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    forms.emplace_back(fmt::format("byte {} of {} flipped", at, bytes.size()), flipped);
  }
  return forms;
}

}  // namespace tapegrad::testing
