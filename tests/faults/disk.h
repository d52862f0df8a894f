#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tapegrad/tests/faults/files.h"

namespace faults {

// The possible disks after a power cut. A change of a file's bytes is safe after an fsync of
// the file, a change of names after an fsync of the folder that has the (new) name. All other
// changes are there or not:
enum class Kept {
  all,  // as if the program was killed
  none,
  in_order,  // names up to some moment, as a journal keeps them, and any bytes
  any,       // any names and any bytes
};
inline constexpr Kept kKept[] = {Kept::all, Kept::none, Kept::in_order, Kept::any};

// The disk under a run that was recorded (shim.h), at each moment.
class Disk {
 public:
  // `before` is what was there, all of it safe; `log` is the file that was recorded.
  Disk(const Files& before, const std::string& log);

  // Moments are numbered from 0, before the first record, to this, after the last one.
  std::size_t moments() const { return moments_; }
  // The program's output so far.
  std::string printed(std::size_t moment) const;
  // The files after a power cut.
  Files after_cut(std::size_t moment, Kept kept, std::mt19937& random) const;

 private:
  struct Node {
    bool folder = false;
    std::string bytes = {};                   // of a file
    std::map<std::string, int> entries = {};  // of a folder: nodes
  };
  // Of names: `node` gets the name `name` in `folder`, and loses the other one. Of bytes: of
  // `file`.
  struct Change {
    std::size_t moment;
    int folder = -1;  // the one whose fsync makes the change safe
    std::string name = {};
    int node = -1;  // none: the name is removed
    int old_folder = -1;
    std::string old_name = {};
    int file = -1;
    std::size_t offset = 0;
    std::string bytes = {};
    std::optional<std::size_t> size = {};  // the file is cut or made longer, to this
    std::size_t safe_from = SIZE_MAX;
  };
  static void apply(const Change& change, std::vector<Node>& nodes);
  static void write(Node& file, std::size_t offset, const std::string& bytes);

  int make(Node node);
  int find(const std::string& path) const;
  std::pair<int, std::string> place_of(const std::string& path) const;
  void change(Change change);
  void read(const std::string& log);

  std::vector<Node> nodes_, before_;  // at the end; at the beginning
  std::vector<Change> changes_;
  std::vector<std::pair<std::size_t, std::string>> printed_;
  std::size_t moments_ = 0;
};

}  // namespace faults
