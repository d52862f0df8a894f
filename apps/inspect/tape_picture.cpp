#include "tapegrad/apps/inspect/tape_picture.h"

#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <vector>

#include "tapegrad/autograd/module_names.h"
#include "tapegrad/base/error.h"
#include "tapegrad/base/text/words.h"

extern char** environ;

namespace tapegrad::inspect {
namespace {

using Edge = TapeGraph::Edge;
using Op = TapeGraph::Op;

// The text between quotes in the language: a line break there is written \n.
std::string dot_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n') {
      result += "\\n";
    } else if (static_cast<unsigned char>(c) >= ' ') {
      result += c;
    }
  }
  return result + '"';
}

std::string value_text(const TapeGraph::Value& value) {
  return fmt::format("{} {}", value.shape, name_of(value.dtype));
}

// Ops and the boxes inside a box.
struct Box {
  std::map<std::string, Box> boxes;
  std::vector<std::size_t> ops;
};

class Drawing {
 public:
  Drawing(const TapeGraph& graph, const std::string& title) : graph_(graph), title_(title) {
    for (const Op& op : graph.ops) most_kept_ = std::max(most_kept_, op.kept_bytes);
    for (std::size_t i = 0; i < graph.ops.size(); ++i) box_of(graph.ops[i]).ops.push_back(i);
  }

  std::string text() {
    text_ =
        "digraph tape {\n"
        "  rankdir=TB; newrank=true; compound=true; labelloc=t; fontname=\"sans-serif\"; "
        "fontsize=16;\n"
        "  node [shape=box style=\"rounded,filled\" fillcolor=\"#ffffff\" color=\"#5b6b7b\" "
        "fontname=\"sans-serif\" fontsize=11];\n"
        "  edge [color=\"#5b6b7b\" fontname=\"sans-serif\" fontsize=9 fontcolor=\"#5b6b7b\" "
        "arrowsize=0.7];\n";
    text_ += fmt::format("  label={};\n", dot_string(title_));
    draw(top_, "", "  ");
    for (std::size_t i = 0; i < graph_.leaves.size(); ++i) draw_leaf(i);
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) draw_edges(i);
    return text_ + "}\n";
  }

 private:
  // An op with a parameter stands beside its module's neighbours. One without is in the same box as
  // the op before it; one that joins two results, such as a residual addition, in the box around.
  Box& box_of(const Op& op) {
    std::vector<std::string> parts = module_parts(op.module);
    const auto joined = std::count_if(op.edges.begin(), op.edges.end(),
                                      [](const Edge& edge) { return edge.from == Edge::From::op; });
    for (int up = op.has_parameter || joined < 2 ? 1 : 2; up > 0 && parts.size() > 0; --up) {
      parts.pop_back();
    }
    Box* box = &top_;
    for (const std::string& part : parts) box = &box->boxes[part];
    return *box;
  }

  void draw(const Box& box, const std::string& path, const std::string& indent) {
    for (const std::size_t i : box.ops) draw_op(i, indent);
    for (const auto& [name, inner] : box.boxes) {
      const std::string whole = path.empty() ? name : path + "." + name;
      text_ += fmt::format(
          "{}subgraph {} {{\n{}  label={}; labeljust=l; style=\"rounded,filled\"; "
          "color=\"#c5ced8\"; fillcolor=\"#8090a018\"; fontsize=12;\n",
          indent, dot_string("cluster " + whole), indent, dot_string(whole));
      draw(inner, whole, indent + "  ");
      text_ += indent + "}\n";
    }
  }

  void draw_op(std::size_t i, const std::string& indent) {
    const Op& op = graph_.ops[i];
    std::string label = op.name;
    const std::vector<std::string> parts = module_parts(op.module);
    if (op.has_parameter && !parts.empty()) label = parts.back() + ": " + label;
    for (std::size_t k = 0; k < op.edges.size(); ++k) {
      const Edge& edge = op.edges[k];
      if (edge.from != Edge::From::leaf || !graph_.leaves[edge.index].parameter) continue;
      const std::string& name = graph_.leaves[edge.index].name;
      label += fmt::format("\n{} {}", name.substr(name.rfind('.') + 1), value_text(op.inputs[k]));
    }
    for (const TapeGraph::Value& output : op.outputs) label += "\n→ " + value_text(output);
    if (op.kept_bytes > 0) label += "\nkeeps " + size_text(static_cast<double>(op.kept_bytes));
    if (op.made_again > 0) label += "\ninput is made again";
    text_ += fmt::format("{}op{} [label={} fillcolor=\"{}\"];\n", indent, i, dot_string(label),
                         shade(op.kept_bytes));
  }

  // White for nothing, orange for the most.
  std::string shade(std::size_t kept) const {
    const double share =
        most_kept_ == 0 ? 0
                        : std::sqrt(static_cast<double>(kept) / static_cast<double>(most_kept_));
    const auto mix = [&](int end) {
      return static_cast<int>(std::lround(255 + share * (end - 255)));
    };
    return fmt::format("#{:02x}{:02x}{:02x}", mix(253), mix(190), mix(110));
  }

  // The ops that use parameters name them.
  void draw_leaf(std::size_t i) {
    const TapeGraph::Leaf& leaf = graph_.leaves[i];
    if (leaf.parameter) return;
    text_ += fmt::format("  leaf{} [label={} shape=ellipse];\n", i,
                         dot_string(fmt::format("input\n{} {}", leaf.shape, name_of(leaf.dtype))));
  }

  void draw_edges(std::size_t to) {
    for (const Edge& edge : graph_.ops[to].edges) {
      if (edge.from == Edge::From::op) text_ += fmt::format("  op{} -> op{};\n", edge.index, to);
      if (edge.from == Edge::From::leaf && !graph_.leaves[edge.index].parameter) {
        text_ += fmt::format("  leaf{} -> op{};\n", edge.index, to);
      }
    }
  }

  const TapeGraph& graph_;
  const std::string& title_;
  std::size_t most_kept_ = 0;
  Box top_;
  std::string text_;
};

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

File temporary_file() {
  File file(std::tmpfile(), std::fclose);
  check(file != nullptr, "a temporary file cannot be made");
  return file;
}

}  // namespace

std::string dot_of(const TapeGraph& graph, const std::string& title) {
  check(graph.ops.size() <= kMostDrawnOps,
        "the tape has {} ops, and a picture {} at most: take a model with fewer layers",
        graph.ops.size(), +kMostDrawnOps);
  return Drawing(graph, title).text();
}

std::string svg_of(const std::string& dot) {
  const File in = temporary_file(), out = temporary_file();
  check(std::fwrite(dot.data(), 1, dot.size(), in.get()) == dot.size() &&
            std::fseek(in.get(), 0, SEEK_SET) == 0,
        "a temporary file cannot be written");
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ::fileno(in.get()), 0);
  ::posix_spawn_file_actions_adddup2(&actions, ::fileno(out.get()), 1);
  char name[] = "dot", format[] = "-Tsvg";
  char* const arguments[] = {name, format, nullptr};
  pid_t child = 0;
  const int failure = ::posix_spawnp(&child, "dot", &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  int status = failure == 0 ? 0 : -1;
  while (failure == 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  check(failure == 0 && status != (127 << 8),
        "SVG is drawn by Graphviz, which is not installed (Debian: apt install graphviz); a file "
        "that ends with .dot needs nothing");
  check(status == 0, "Graphviz's program dot could not draw the picture");
  std::string svg;
  std::rewind(out.get());
  char piece[1 << 16];
  while (const std::size_t count = std::fread(piece, 1, sizeof piece, out.get())) {
    svg.append(piece, count);
  }
  check(!std::ferror(out.get()), "a temporary file cannot be read");
  return svg;
}

}  // namespace tapegrad::inspect
