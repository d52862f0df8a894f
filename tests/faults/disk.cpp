#include "tapegrad/tests/faults/disk.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "tapegrad/tests/faults/shim.h"

namespace faults {

Disk::Disk(const Files& before, const std::string& log) {
  make({.folder = true});
  for (const auto& [name, contents] : before) {
    const bool folder = name.back() == '/';
    const auto [parent, last] = place_of(folder ? name.substr(0, name.size() - 1) : name);
    const int node = make({.folder = folder, .bytes = contents});
    nodes_[static_cast<std::size_t>(parent)].entries[last] = node;
  }
  before_ = nodes_;
  read(log);
  // The beginning has the nodes that come later, too, without a name and empty.
  for (std::size_t i = before_.size(); i < nodes_.size(); ++i) {
    before_.push_back({.folder = nodes_[i].folder});
  }
}

int Disk::make(Node node) {
  nodes_.push_back(std::move(node));
  return static_cast<int>(nodes_.size()) - 1;
}

// The folder and the last name of a path; no folder (−1) if it is not on this disk.
std::pair<int, std::string> Disk::place_of(const std::string& path) const {
  int folder = path.front() == '/' ? -1 : 0;
  std::size_t begin = 0;
  for (std::size_t end = 0; folder >= 0; begin = end + 1) {
    end = path.find('/', begin);
    if (end == std::string::npos) break;
    const auto& entries = nodes_[static_cast<std::size_t>(folder)].entries;
    const auto found = entries.find(path.substr(begin, end - begin));
    folder = found == entries.end() ? -1 : found->second;
  }
  return {folder, path.substr(begin)};
}

int Disk::find(const std::string& path) const {
  const auto [folder, name] = place_of(path);
  if (folder < 0 || name == ".") return folder;
  const auto& entries = nodes_[static_cast<std::size_t>(folder)].entries;
  const auto found = entries.find(name);
  return found == entries.end() ? -1 : found->second;
}

void Disk::write(Node& file, std::size_t offset, const std::string& bytes) {
  if (file.bytes.size() < offset + bytes.size()) file.bytes.resize(offset + bytes.size());
  std::copy(bytes.begin(), bytes.end(), file.bytes.begin() + static_cast<std::ptrdiff_t>(offset));
}

void Disk::apply(const Change& change, std::vector<Node>& nodes) {
  const auto at = [&](int node) -> Node& { return nodes[static_cast<std::size_t>(node)]; };
  if (change.file >= 0) {
    if (change.size) at(change.file).bytes.resize(*change.size);
    write(at(change.file), change.offset, change.bytes);
  } else if (change.node < 0) {
    at(change.folder).entries.erase(change.name);
  } else {
    if (change.old_folder >= 0) {
      auto& entries = at(change.old_folder).entries;
      const auto old = entries.find(change.old_name);
      if (old != entries.end() && old->second == change.node) entries.erase(old);
    }
    at(change.folder).entries[change.name] = change.node;
  }
}

void Disk::change(Change change) {
  change.moment = moments_;
  apply(change, nodes_);
  changes_.push_back(std::move(change));
}

void Disk::read(const std::string& log) {
  struct Open {
    int node;
    std::size_t offset;
    bool appends;
  };
  std::map<int, Open> open;  // by descriptor
  for (std::size_t at = 0; at < log.size(); ++moments_) {
    Record r{};
    std::memcpy(&r, log.data() + at, sizeof r);
    const std::string first = log.substr(at + sizeof r, r.first);
    const std::string second = log.substr(at + sizeof r + r.first, r.second);
    at += sizeof r + r.first + r.second;
    const auto [folder, name] = place_of(first.empty() ? "." : first);
    const int node = first.empty() ? -1 : find(first);
    const bool here = folder >= 0;
    switch (r.kind) {
      case Record::open: {
        int file = node;
        if (here && file < 0) {
          file = make({});
          change({.moment = 0, .folder = folder, .name = name, .node = file});
        }
        if (file >= 0 && (r.flags & O_TRUNC) != 0) change({.moment = 0, .file = file, .size = 0});
        open[r.fd] = {file, 0, (r.flags & O_APPEND) != 0};
        break;
      }
      case Record::write: {
        Open& to = open.at(r.fd);
        const std::size_t end = nodes_.at(static_cast<std::size_t>(to.node)).bytes.size();
        const std::size_t offset = r.offset >= 0 ? static_cast<std::size_t>(r.offset)
                                   : to.appends  ? end
                                                 : to.offset;
        if (r.offset < 0) to.offset = offset + first.size();
        change({.moment = 0, .file = to.node, .offset = offset, .bytes = first});
        break;
      }
      case Record::truncate:
        change({.moment = 0, .file = open.at(r.fd).node, .size = r.offset});
        break;
      case Record::sync:
        for (Change& c : changes_) {
          const bool of_this = c.file == open.at(r.fd).node || c.folder == open.at(r.fd).node;
          if (of_this) c.safe_from = std::min(c.safe_from, moments_ + 1);
        }
        break;
      case Record::close:
        open.erase(r.fd);
        break;
      case Record::rename: {
        const auto [new_folder, new_name] = place_of(second);
        change({.moment = 0,
                .folder = new_folder,
                .name = new_name,
                .node = node,
                .old_folder = folder,
                .old_name = name});
        break;
      }
      case Record::make:
        change({.moment = 0, .folder = folder, .name = name, .node = make({.folder = true})});
        break;
      case Record::unlink:
      case Record::rmdir:
        change({.moment = 0, .folder = folder, .name = name});
        break;
      case Record::print:
        printed_.emplace_back(moments_, first);
        break;
    }
  }
}

std::string Disk::printed(std::size_t moment) const {
  std::string text;
  for (const auto& [when, part] : printed_) {
    if (when < moment) text += part;
  }
  return text;
}

Files Disk::after_cut(std::size_t moment, Kept kept, std::mt19937& random) const {
  const auto below = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  std::size_t journal = 0;  // all names before this moment are kept
  for (const Change& c : changes_) {
    if (c.file < 0 && c.safe_from <= moment) journal = std::max(journal, c.moment + 1);
  }
  journal += below(moment - std::min(moment, journal) + 1);

  std::vector<Node> nodes = before_;
  for (Change c : changes_) {
    if (c.moment >= moment) break;
    const bool safe = c.safe_from <= moment || kept == Kept::all;
    if (!safe) {
      if (kept == Kept::none) continue;
      const bool name_in_order = kept == Kept::in_order && c.file < 0;
      if (name_in_order ? c.moment >= journal : below(2) == 0) continue;
      if (c.file >= 0 && !c.bytes.empty()) {  // all of it, a part, or zeros in its place
        const std::size_t how = below(3);
        if (how == 1) c.bytes.resize(below(c.bytes.size()));
        if (how == 2) c.bytes.assign(c.bytes.size(), '\0');
      }
    }
    apply(c, nodes);
  }

  Files files;
  const auto list = [&](const auto& self, int folder, const std::string& prefix) -> void {
    for (const auto& [name, node] : nodes[static_cast<std::size_t>(folder)].entries) {
      const Node& n = nodes[static_cast<std::size_t>(node)];
      if (n.folder) {
        files[prefix + name + "/"];
        self(self, node, prefix + name + "/");
      } else {
        files[prefix + name] = n.bytes;
      }
    }
  };
  list(list, 0, "");
  return files;
}

}  // namespace faults
