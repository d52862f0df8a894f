#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "tapegrad/base/file.h"
#include "tapegrad/run/folder/run_folder.h"

namespace tapegrad::events {

// A record of an event file: its length, a checksum of that, the bytes and their checksum. It is
// the format of TensorFlow's TFRecord files: numbers are little-endian, and checksums are CRC-32C,
// rotated and shifted by a constant.
std::string record_of(std::string_view bytes);

// Writes what a run records to a file in its folder that TensorBoard reads. Each number of
// metrics.jsonl becomes a scalar, each sample a text, and each layer three scalars. Several files
// of a folder, of resumes, are one run to TensorBoard.
//
// A file that cannot be written, such as one on a full disk, is left as it is: stderr tells so
// once, and training goes on.
class TensorboardWriter : public run::RunFolder::Observer {
 public:
  // The file is made when the first number comes. What earlier files have of `first_step` and of
  // later ones is void.
  TensorboardWriter(std::filesystem::path folder, std::int64_t first_step)
      : folder_(std::move(folder)), first_step_(first_step) {}

  void metrics(const run::RunFolder::Metrics& line) override;
  void layers(std::int64_t iteration, const std::vector<run::LayerMeans>& layers) override;

 private:
  template <class Fill>
  void write(std::int64_t step, const Fill& fill);
  void open();

  std::filesystem::path folder_;
  std::int64_t first_step_;
  std::unique_ptr<AppendedFile> file_;
  bool failed_ = false;
  std::set<std::string> texts_;  // tags of texts that the file has
};

}  // namespace tapegrad::events
