#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tapegrad/autograd/formats/pickle_writer.h"
#include "tapegrad/autograd/formats/stored_zip.h"
#include "tapegrad/autograd/tensor/stored_tensor.h"

namespace tapegrad::testing {

// As torch.save writes a state dict.
inline void write_torch(const std::filesystem::path& path,
                        const std::map<std::string, Tensor>& tensors) {
  PickleWriter w;
  w.begin_ordered_dict();
  std::vector<std::string> storages;
  for (const auto& [name, t] : tensors) {
    w.text(name);
    w.tensor(std::to_string(storages.size()), {t.shape().begin(), t.shape().end()});
    storages.emplace_back(bytes_of(t));
  }
  w.end_dict();
  const std::string pickle = w.take();
  std::vector<ZipFile> files = {{"archive/data.pkl", pickle}};
  for (std::size_t i = 0; i < storages.size(); ++i) {
    files.push_back({"archive/data/" + std::to_string(i), storages[i]});
  }
  write_stored_zip(path, files);
}

}  // namespace tapegrad::testing
