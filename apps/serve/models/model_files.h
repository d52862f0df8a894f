#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>

namespace tapegrad::serve {

// The name of a model for clients: "runs/notes-1/" → "notes-1", "models/SmolLM2.gguf" → "SmolLM2".
std::string name_of_model(const std::filesystem::path& path);

// What a path has now: other text if a file there, or one in the folder there, is another one, was
// written to, or has got other rights; records of runs (.jsonl, .log) do not count. "" if there is
// nothing.
std::string stamp_of(const std::filesystem::path& path);

// The models that lie in a folder, by their names. What looks like no model is passed over, and
// stderr says so once; so is one whose name another one has. For one thread.
class ModelFiles {
 public:
  using Paths = std::map<std::string, std::filesystem::path>;

  // Errors: this is no folder; two models in it have one name.
  explicit ModelFiles(std::filesystem::path folder);

  const std::filesystem::path& folder() const { return folder_; }
  const Paths& paths() const { return paths_; }
  // Reads the folder again. Error if it is there no more.
  void read_again();

 private:
  struct Look {
    std::string stamp = {};
    bool is_model = false;
  };
  void take(const std::filesystem::path& path, bool is_first);
  bool looks_like_model(const std::filesystem::path& path);
  void pass_over(const std::filesystem::path& path, const std::string& why);

  const std::filesystem::path folder_;
  Paths paths_;
  std::set<std::filesystem::path> passed_;       // those of which stderr knows
  std::map<std::filesystem::path, Look> looks_;  // the last ones at what was no model of the list
};

}  // namespace tapegrad::serve
