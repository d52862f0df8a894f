#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "tapegrad/apps/evaluate/items/item_output.h"
#include "tapegrad/base/file.h"

namespace tapegrad::evaluation {

// A file of --per-item: JSON lines. The first one says what made the others, each of which has an
// item, with fingerprints of what the file of items says (`item`), of what the model saw
// (`prompt`), and in a chat of that without the model's template (`question`).

// What made a file, as its first line has it.
struct ItemOrigin {
  std::string model, checkpoint;            // for people
  std::string fingerprint, weights, cache;  // must be the same to go on with a file
};

// The items of a file.
class StoredItems {
 public:
  StoredItems() = default;
  // A last line without an end is left out: the program ended in the middle of it. Errors name file
  // and line.
  explicit StoredItems(std::filesystem::path path);

  // What it says of an item of this task, if anything, whatever the model saw of it.
  std::optional<ItemOutput> find(const Task& task, const Item& item) const;
  // What it says of an item that another model is asked, too. Error, with both lines, unless it has
  // the same question and the same right answer.
  ItemOutput asked(const Task& task, const Item& item) const;

 private:
  friend class ItemFile;
  // Task, line of the file of items, and fingerprint of that line.
  using Key = std::tuple<std::string, std::int64_t, std::string>;
  struct Line {
    std::int64_t number;
    Json json;
  };

  std::filesystem::path path_;
  ItemOrigin origin_;
  std::map<Key, Line> lines_;
  std::string whole_;     // the lines that have an end
  bool cut_off_ = false;  // there was one without
};

// The items that a call finds in a file, and those that it adds: as soon as each is there, so that
// nothing is lost when the program is killed.
class ItemFile {
 public:
  ItemFile() = default;  // no file: finds nothing, and keeps nothing
  // Goes on with the file, if there is one and it has something. Errors: something else made it;
  // it is no such file.
  ItemFile(const std::filesystem::path& path, const ItemOrigin& origin, bool overwrite);

  // Error unless the model saw the same of the item.
  std::optional<ItemOutput> find(const Task& task, const Item& item) const;
  void add(const Task& task, const Item& item, const ItemOutput& output);

 private:
  StoredItems stored_;
  std::optional<AppendedFile> file_;
};

}  // namespace tapegrad::evaluation
