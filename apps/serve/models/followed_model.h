#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "tapegrad/run/models/model.h"

namespace tapegrad::serve {

// A model whose run goes on training: the weights of its newest checkpoint, in place of older ones.
// For the engine's thread.
class FollowedModel {
 public:
  // `load` opens this checkpoint, now and whenever it has been replaced. Error as that, and if the
  // run has no such checkpoint.
  FollowedModel(std::filesystem::path run, std::string checkpoint,
                std::function<run::TextModel()> load);

  const run::TextModel& model() const { return model_; }
  // Reads the weights again if the checkpoint has been replaced since. Whether they are others now.
  // A checkpoint that cannot be read is reported on stderr, once, and the weights stay as they are.
  bool renew();

 private:
  // A file that was replaced is another one, whatever its times are.
  struct File {
    std::uint64_t device, number;
    std::int64_t seconds, nanoseconds, bytes;
    bool operator==(const File&) const = default;
  };
  std::optional<File> newest() const;

  const std::filesystem::path run_;
  const std::string checkpoint_;
  const std::function<run::TextModel()> load_;
  std::optional<File> known_;
  run::TextModel model_;
};

}  // namespace tapegrad::serve
