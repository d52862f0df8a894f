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
  // A broken model is tried again after that, though its files are the same: the reason may lie
  // elsewhere.
  std::chrono::seconds try_again{30};
  std::string weights{run::kStored};
  ServerBounds bounds = {};  // of each model
  ServedOptions served = {};
};

// The models of a folder. A thread of its own loads them one after the other, as requests name
// them. Where memory for the next one is missing, idle models are dropped, first the one that was
// not asked for the longest time; if that does not suffice, none is, and the next one waits while
// others are loaded. Each loaded model has an engine of its own.
//
// Names of requests are compared with those of the list, and never become paths.
class ModelsFolder : public ModelSet {
 public:
  // Errors as of ModelFiles.
  explicit ModelsFolder(ModelsOptions options);
  ~ModelsFolder() override;

  Found find(const std::optional<std::string>& name) override;
  void load(const std::string& name, Then then, Wanted wanted) override;
  Json list() override;
  Json describe(std::string_view name) override;
  bool reads_files() const override { return true; }
  EngineState state() const override;
  bool idle() const override;

  // True if an engine has failed. The server is interrupted then.
  bool broken() const { return broken_; }
  std::size_t size() const;
  std::uint64_t memory() const { return memory_; }
  // Ends loading and all engines: what they have not done fails. For the end of a server.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  using Loaded = std::shared_ptr<LoadedModel>;
  struct Waiting {
    Then then;
    Wanted wanted;
    Clock::time_point since;
  };
  struct Entry {
    std::filesystem::path path;
    Loaded loaded = {};
    std::uint64_t bytes = 0;  // that the loaded one has
    std::int64_t turn = 0;    // of the last request
    bool loading = false;
    std::vector<Waiting> waiting = {};
    // What has been read of its files, the reason why it cannot be loaded, and the bytes for which
    // it waits, with the stamps of the files.
    std::string known = {}, failed = {}, planned = {};
    Json about = {};
    Refusal why = {};
    Clock::time_point refused_until = {};  // unless the files change
    std::uint64_t needs = 0;
  };
  struct Outcome {
    Loaded loaded = {};
    std::uint64_t bytes = 0;
    Refusal why = {};
    Clock::time_point refused_until = {};  // it would fail again until then, or until files change
    bool waits = false;                    // for so many bytes
    std::string stamp = {};
  };

  void read_folder();
  Refusal unknown(const std::string& name) const;
  std::string shown(const std::string& name, const std::string& error) const;
  HeldModel held(Entry& entry);
  std::optional<Found> found(const std::string& name);
  void look_at(const std::string& name);
  Json about(const std::string& name, const std::filesystem::path& path) const;
  Json described(const std::string& name, const Entry& entry) const;

  void submit(const std::string& name);
  void load_now(const std::string& name);
  void give_up(const std::string& name) noexcept;
  void take(const std::string& name, Outcome outcome);
  void wait_for_room(const std::string& name, Outcome outcome);
  Outcome make_whole(const std::string& name, const std::filesystem::path& path,
                     const std::string& planned, std::uint64_t needs);
  Outcome make(const std::string& name, const std::filesystem::path& path);
  Outcome failed(const std::string& name, const std::exception& error) const;
  bool make_room(const std::string& name, std::uint64_t bytes);
  static bool is_idle(const Entry& entry);
  std::uint64_t busy_bytes() const;
  Loaded take_idle();

  const ModelsOptions options_;
  const std::uint64_t memory_;
  const std::int64_t created_;
  std::mutex files_mutex_;  // of files_
  ModelFiles files_;
  std::atomic<bool> stops_ = false, broken_ = false;

  mutable std::mutex mutex_;  // of what follows
  std::map<std::string, Entry, std::less<>> entries_;
  std::uint64_t taken_ = 0;  // bytes of those that are loaded
  std::int64_t turn_ = 0;
  EngineState past_;   // of models that were dropped
  WorkThread loader_;  // ends before all else does
};

}  // namespace tapegrad::serve
