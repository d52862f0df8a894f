#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/apps/serve/models/loaded_model.h"
#include "tapegrad/apps/serve/models/model_files.h"
#include "tapegrad/apps/serve/models/model_set.h"
#include "tapegrad/apps/serve/work_thread.h"

namespace tapegrad::serve {

struct ModelsOptions {
  std::filesystem::path folder;
  // Bytes of weights, keys and values of all loaded models [three quarters of what is free].
  std::optional<std::uint64_t> memory = {};
  std::string weights{run::kStored};
  ServerBounds bounds = {};  // of each model
  ServedOptions served = {};
};

// The models of a folder. A thread of its own loads them one after the other, as requests name
// them. Where memory for the next one is missing, the idle model that was not asked for the longest
// time is dropped; if none is idle, the next one waits. Each loaded model has an engine of its own.
//
// Names of requests are compared with those of the list, and never become paths.
class ModelsFolder : public ModelSet {
 public:
  // Errors as of ModelFiles.
  explicit ModelsFolder(ModelsOptions options);
  ~ModelsFolder() override;

  Found find(const std::optional<std::string>& name) override;
  void load(const std::string& name, Then then) override;
  Json list() override;
  Json describe(std::string_view name) override;
  bool reads_files() const override { return true; }
  EngineState state() const override;
  bool idle() const override;

  std::size_t size() const;
  std::uint64_t memory() const { return memory_; }
  // Ends loading and all engines: what they have not done fails. For the end of a server.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  using Loaded = std::shared_ptr<LoadedModel>;
  struct Entry {
    std::filesystem::path path;
    Loaded loaded = {};
    std::uint64_t bytes = 0;  // that the loaded one has
    std::int64_t turn = 0;    // of the last request
    bool loading = false;
    std::vector<Then> waiting = {};
    // What has been read of its files, and the reason why it cannot be loaded, with their stamps.
    std::string known = {}, failed = {};
    Json about = {};
    Refusal why = {};
  };
  struct Outcome {
    Loaded loaded = {};
    std::uint64_t bytes = 0;
    Refusal why = {};
    bool lasts = false;  // it will fail again until its files change
  };

  void read_folder();
  Refusal unknown(const std::string& name) const;
  std::string shown(const std::string& name, const std::string& error) const;
  HeldModel held(Entry& entry);
  std::optional<Found> found(const std::string& name);
  void look_at(const std::string& name);
  Json about(const std::string& name, const std::filesystem::path& path) const;
  Json described(const std::string& name, const Entry& entry) const;

  void load_now(const std::string& name);
  Outcome make(const std::string& name, const std::filesystem::path& path);
  Outcome failed(const std::string& name, const std::exception& error) const;
  void make_room(const std::string& name, std::uint64_t bytes);
  Loaded take_idle();

  const ModelsOptions options_;
  const std::uint64_t memory_;
  const std::int64_t created_;
  std::mutex files_mutex_;  // of files_
  ModelFiles files_;
  std::atomic<bool> stops_ = false;

  mutable std::mutex mutex_;  // of what follows
  std::map<std::string, Entry, std::less<>> entries_;
  std::uint64_t taken_ = 0;  // bytes of those that are loaded
  std::int64_t turn_ = 0;
  EngineState past_;   // of models that were dropped
  WorkThread loader_;  // ends before all else does
};

}  // namespace tapegrad::serve
