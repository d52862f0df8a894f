// Who may include whom: the rooms of the house and the doors between them, read from the sources.

#include <algorithm>
#include <regex>
#include <set>

#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/places.h"
#include "tapegrad/tests/sources.h"

using namespace tapegrad::testing;

namespace {

using Names = std::set<std::string>;

// The files that each folder may include: files of these folders, or single files. "nn*" stands
// for nn and all folders in it. A folder that is not in this table may not have sources. Rooms of
// run/ and apps/ stand below those that they may use.
const Names kEngine = {"base*", "autograd/tensor", "autograd/gemm", "autograd/kernels", "autograd"};

Names operator+(Names names, const Names& more) {
  names.insert(more.begin(), more.end());
  return names;
}

const std::map<std::string, Names> kMayInclude = {
    {"base", {"base*"}},
    {"base/json", {"base*"}},
    {"base/memory", {"base*"}},
    {"base/text", {"base*"}},
    {"comm", {"base*", "comm"}},
    {"autograd/tensor", {"base*", "autograd/tensor"}},
    {"autograd/gemm", {"base*", "autograd/tensor", "autograd/gemm"}},
    {"autograd/kernels", {"base*", "autograd/tensor", "autograd/gemm", "autograd/kernels"}},
    {"autograd/formats", {"base*", "autograd/tensor", "autograd/formats"}},
    {"autograd", kEngine + Names{"autograd/ops"}},
    {"autograd/quantized", kEngine + Names{"autograd/quantized*"}},
    {"autograd/quantized/kernels", {"base*", "autograd/quantized*"}},
    {"autograd/ops", kEngine + Names{"autograd/quantized", "autograd/ops"}},
    {"autograd/check", {"base*", "autograd*"}},
    {"nn", {"base*", "autograd*", "nn*"}},
    {"nn/generation", {"base*", "autograd*", "nn*"}},
    {"nn/generation/speculative", {"base*", "autograd*", "nn*"}},
    {"nn/layers", {"base*", "autograd*", "nn", "nn/generation/kv_cache.h", "nn/layers"}},
    {"nn/lora", {"base*", "autograd*", "nn*"}},
    {"nn/losses", {"base*", "autograd*", "nn*"}},
    {"optim", {"base*", "comm", "autograd*", "optim*"}},
    {"optim/optimizers", {"base*", "comm", "autograd*", "optim*"}},
    {"data/tokenize", {"base*", "data/tokenize*"}},
    {"data/tokenize/bpe", {"base*", "data/tokenize*"}},
    {"data/tokenize/hf", {"base*", "data/tokenize*"}},
    {"data/tokenize/hf/steps", {"base*", "data/tokenize*"}},
    {"data/tokenize/sentencepiece", {"base*", "data/tokenize*"}},
    {"data/tokenize/train", {"base*", "data/tokenize*"}},
    {"data/grammar", {"base*", "data/tokenize*", "data/grammar*"}},
    {"data/grammar/calls",
     {"base*", "data/tokenize*", "data/chat/answers/internal/call_format.h", "data/grammar*"}},
    {"data/grammar/schema", {"base*", "data/grammar*"}},
    {"data/corpus", {"base*", "data/tokenize*", "data/corpus"}},
    {"data/jinja", {"base*", "data/jinja*"}},
    {"data/jinja/functions", {"base*", "data/jinja*"}},
    {"data/jinja/syntax", {"base*", "data/jinja*"}},
    {"data/chat",
     {"base*", "data/tokenize*", "data/corpus", "data/jinja", "data/chat",
      "data/chat/answers/internal/call_format.h"}},
    {"data/chat/answers", {"base*", "data/chat*"}},
    {"data/chat/tools", {"base*", "data/jinja", "data/chat*"}},
    {"data", {"base*", "data*"}},
    {"arrays",
     {"base*", "autograd/tensor", "autograd/formats", "data/corpus/internal/unpack.h", "arrays"}},
    {"run/options",
     {"base*", "autograd/tensor", "autograd/gemm", "autograd/quantized", "nn", "optim",
      "run/options"}},
    {"run/folder",
     {"base*", "comm", "autograd", "autograd/gemm", "nn", "optim", "data/tokenize", "run/options",
      "run/folder"}},
    {"run/plan", {"base*", "comm", "autograd/gemm", "nn", "optim", "run/options", "run/plan"}},
    {"run/models",
     {"base*", "autograd/tensor", "autograd/formats", "nn*", "data*", "run/options", "run/folder",
      "run/models*"}},
    {"run/models/adapters",
     {"base*", "autograd", "autograd/tensor", "nn", "autograd/formats", "run/folder",
      "run/models/adapters", "run/models/families", "run/models/formats/gguf",
      "run/models/formats/hf"}},
    {"run/models/families",
     {"base*", "autograd/tensor", "autograd/formats", "nn", "run/folder/config.h",
      "run/models/families"}},
    {"run/models/formats",
     {"base*", "autograd/tensor", "nn", "autograd/formats", "data/tokenize*", "run/folder",
      "run/models*"}},
    {"run/models/formats/gguf",
     {"base*", "autograd/tensor", "autograd", "autograd/formats", "data/tokenize*", "run/folder",
      "run/models", "run/models/families", "run/models/formats", "run/models/formats/gguf"}},
    {"run/models/formats/hf",
     {"base*", "autograd/tensor", "autograd", "autograd/formats", "data/tokenize*", "run/folder",
      "run/models/families", "run/models/formats", "run/models/formats/hf"}},
    {"run/corpus", {"base*", "data*", "run/folder", "run/models/formats/nanogpt.h", "run/corpus*"}},
    {"run/corpus/chat",
     {"base*", "autograd/tensor", "nn", "data*", "run/models", "run/corpus", "run/corpus/chat"}},
    {"run/corpus/prepare",
     {"base*", "data*", "run/folder", "run/plan/time_left.h", "run/models", "run/corpus*"}},
    {"run/record",
     {"base*", "comm", "autograd*", "optim", "run/options", "run/folder", "run/plan",
      "run/record"}},
    {"run/train",
     {"base*", "comm", "autograd*", "nn*", "data*", "optim", "run/options", "run/folder",
      "run/plan", "run/models", "run/corpus", "run/record", "run/train"}},
    {"run/train/objectives",
     {"base*", "nn*", "data", "run/folder", "run/models", "run/plan", "run/record", "run/train*"}},
    {"run/train/evaluation", {"base*", "nn", "data", "run/record", "run/train*"}},
    {"apps/chart", {"base*", "apps/chart"}},
    {"apps/http", {"base*", "apps/http"}},
    {"apps/events", {"base*", "run/folder", "apps/events"}},
    {"apps/watch", {"base*", "run/folder", "apps/http", "apps/watch*"}},
    {"apps/watch/report", {"base*", "nn/summary.h", "run/folder", "apps/chart", "apps/watch*"}},
    {"apps/cli", {"base*", "comm", "autograd/gemm/gemm.h", "run/folder", "apps/cli"}},
    {"apps/cli/training",
     {"base*", "comm", "autograd/gemm/gemm.h", "autograd/gemm/product_rate.h", "run/options",
      "run/folder", "run/corpus", "run/train", "apps/cli*", "apps/events", "apps/watch*"}},
    {"apps/first",
     {"base/terminal.h", "autograd/tensor/stored_type.h", "run/models/formats", "run/options",
      "apps/cli"}},
    {"apps/sample",
     {"base*", "autograd*", "nn*", "data/tokenize", "run/models", "run/train/evaluation",
      "apps/sample"}},
    {"apps/chat",
     {"base*", "nn/generation", "data/chat*", "run/models", "apps/chat", "apps/sample"}},
    {"apps/check", {"base*", "autograd*", "nn*", "apps/cli", "apps/check"}},
    {"apps/demo", {"base*", "autograd*", "nn*", "apps/chart", "apps/demo"}},
    {"apps/bench",
     {"base*", "autograd*", "nn*", "optim", "run/options", "run/plan", "run/record", "run/train",
      "apps/bench"}},
    {"apps/evaluate",
     {"base*", "autograd", "nn/generation", "data/chat", "data/corpus", "data/jinja", "run/corpus*",
      "run/models", "run/folder", "run/train/evaluation", "apps/cli", "apps/events", "apps/sample",
      "apps/evaluate*"}},
    {"apps/evaluate/items",
     {"base*", "data/chat", "data/jinja", "data/tokenize", "apps/evaluate/items"}},
    {"apps/train",
     {"base*", "nn*", "run*", "apps/bench", "apps/cli*", "apps/train*", "apps/sample"}},
    {"apps/train/plan",
     {"base*", "nn*", "run*", "apps/bench", "apps/cli*", "apps/train/objectives.h",
      "apps/train/plan", "apps/sample"}},
    {"apps/inspect", {"base*", "autograd", "nn", "run/models", "apps/inspect"}},
    {"apps/seq2seq",
     {"base*", "nn*", "data*", "run/corpus", "run/models", "run/record", "apps/cli*",
      "apps/seq2seq"}},
    {"apps/serve",
     {"base*", "nn*", "data*", "run/folder", "run/models", "apps/http", "apps/sample/stop_text.h",
      "apps/serve*"}},
    {"apps/serve/api",
     {"base*", "autograd", "nn*", "data*", "apps/http", "apps/sample/sampling_options.h",
      "apps/serve*"}},
    {"apps/serve/api/fields",
     {"base*", "data/chat", "apps/http", "apps/serve/api/fields", "apps/serve"}},
    {"apps/serve/api/responses", {"base*", "nn*", "data*", "apps/http", "apps/serve*"}},
    {"apps/serve/api/tools",
     {"base*", "nn*", "data*", "run/models/internal/call_mask.h", "apps/serve*"}},
    {"apps/sweep", {"base*", "run/folder", "apps/cli", "apps/events", "apps/sweep"}},
    {"apps/tokenizer",
     {"base*", "data/corpus", "data/tokenize*", "run/corpus", "run/folder", "run/models",
      "apps/cli", "apps/events", "apps/inspect/token_text.h", "apps/tokenizer"}},
    {"apps/commands",
     {"base*", "autograd", "autograd/formats", "nn*", "data/corpus", "run/options", "run/folder",
      "run/models*", "run/corpus*", "apps*"}},
    {"apps", {"apps/cli", "apps"}},
    {kTutorial, {"base*", "autograd*", "nn*", "optim*", "data*", kTutorial}},
};

// Words that stand for a library or a facility of the system, and the only file that may use them,
// or the beginning of its name: everybody else goes through that file's functions. Threads compute
// in one file. The others have the one that makes the next batch of arrays, the one that calls MPI,
// the one that speaks HTTP, and the one that reads requests to a model: they must go on while the
// program computes, which a loop of the pool could not.
struct OneDoor {
  std::string word, file;
  std::vector<std::string> others = {};
};
const std::vector<OneDoor> kOneDoor = {
    {"std::thread",
     "base/parallel.cpp",
     {"arrays/array_loader.cpp", "comm/mpi_processes.cpp", "apps/http/listener",
      "apps/serve/work_thread"}},
    {"mpi.h", "comm/mpi_"},
    {"std::jthread", "nowhere"},
    {"std::async", "nowhere"},
    {"#pragma omp", "nowhere"},
    {"<omp.h>", "nowhere"},
    {"cblas", "autograd/gemm/openblas"},
    {"openblas_", "autograd/gemm/openblas"},
    {"oneapi", "autograd/gemm/onednn.cpp"},
    {"dnnl::", "autograd/gemm/onednn.cpp"},
    {"dlopen", "autograd/gemm/o"},
    {"histedit.h", "apps/sample/line_editor.cpp"},
    {"<Eigen/", "autograd/tensor/eigen.h"},
    {"tensor/eigen.h", "nowhere"},  // users without Eigen include all other headers
};

// Functions of std::filesystem that throw errors of their own, whose sentences name no option and
// no remedy, unless their last argument is a std::error_code.
const std::regex kThrowing(
    R"((?:\b(?:fs|filesystem)::(?:absolute|(?:weakly_)?canonical|copy|copy_file|create_\w+|)"
    R"(current_path|equivalent|exists|file_size|hard_link_count|is_\w+|last_write_time|permissions|)"
    R"(proximate|read_symlink|relative|remove|remove_all|rename|resize_file|space|status|)"
    R"(symlink_status|temp_directory_path|(?:recursive_)?directory_iterator(?: \w+)?)|)"
    R"((?:\.|->)(?:is_directory|is_regular_file|is_symlink|symlink_status|last_write_time|)"
    R"(file_size|hard_link_count))\()");

// The arguments of a call, from behind its "(" on.
std::string arguments_at(const std::string& text, std::size_t begin) {
  std::size_t end = begin;
  for (int depth = 1; end < text.size(); ++end) {
    depth += text[end] == '(' ? 1 : text[end] == ')' ? -1 : 0;
    if (depth == 0) break;
  }
  return text.substr(begin, end - begin);
}

// The calls in `text` that may throw a std::filesystem::filesystem_error.
std::vector<std::string> throwing_calls(const std::string& text) {
  const std::regex declared(R"(std::error_code&? ([\w, ]+))"), word(R"(\w+)"), last(R"((\w*)\)*$)");
  Names errors;
  for (std::sregex_iterator at(text.begin(), text.end(), declared), end; at != end; ++at) {
    const std::string names = (*at)[1];
    for (std::sregex_iterator name(names.begin(), names.end(), word); name != end; ++name) {
      errors.insert(name->str());
    }
  }
  std::vector<std::string> calls;
  for (std::sregex_iterator at(text.begin(), text.end(), kThrowing), end; at != end; ++at) {
    const auto begin = static_cast<std::size_t>(at->position() + at->length());
    const std::string arguments = arguments_at(text, begin);
    std::smatch found;
    std::regex_search(arguments, found, last);
    const bool is_end = arguments.empty() && at->str().find("iterator") != std::string::npos;
    if (!is_end && errors.count(found[1]) == 0) calls.push_back(at->str() + arguments + ")");
  }
  return calls;
}

bool starts_with(const std::string& text, const std::string& start) {
  return text.rfind(start, 0) == 0;
}

// The path that a file would have without a folder for internal headers.
std::string place_of(const std::string& path) {
  return folder_of(path) + path.substr(path.rfind('/'));
}

bool allowed(const Names& rules, const std::string& path) {
  const std::string folder = folder_of(path);
  if (rules.count(folder) == 1 || rules.count(path) == 1) return true;
  for (const std::string& rule : rules) {
    const bool whole_tree = rule.back() == '*';
    if (whole_tree && starts_with(folder + "/", rule.substr(0, rule.size() - 1) + "/")) return true;
  }
  return false;
}

std::string listed(const Names& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// The public headers as users include them, such as "tapegrad/nn/decoder.h".
Names public_headers() {
  std::ifstream file(tapegrad::places::kPublicHeaders);
  Names headers;
  for (std::string line; std::getline(file, line);) headers.insert(line);
  return headers;
}

bool is_internal(const std::string& path) { return path.find("/internal/") != std::string::npos; }

}  // namespace

TEST_CASE("a header of the libraries is public, or lies in a folder called internal", "[layers]") {
  const Names headers = public_headers();
  const std::vector<std::string> libraries(
      kLibraryAndPrograms.begin(),
      std::find(kLibraryAndPrograms.begin(), kLibraryAndPrograms.end(), "apps"));
  int internal = 0;
  for (const auto& [path, text] : read_sources(libraries)) {
    if (!path.ends_with(".h")) continue;
    internal += is_internal(path) ? 1 : 0;
    if (is_internal(path) != (headers.count("tapegrad/" + path) == 1)) continue;
    FAIL_CHECK(path << (is_internal(path) ? " is internal, and HEADERS has it"
                                          : " is no public header of HEADERS: it belongs into "
                                            "internal/"));
  }
  CHECK(internal > 100);
}

// So each header with a source is compiled by itself, where headers are not precompiled.
TEST_CASE("a source includes its own header first", "[layers]") {
  const auto sources = read_sources(kLibraryAndPrograms);
  int checked = 0;
  for (const auto& [path, text] : sources) {
    if (!path.ends_with(".cpp")) continue;
    std::string header = path.substr(0, path.size() - 3) + "h";
    if (sources.count(header) == 0) header.insert(header.rfind('/'), "/internal");
    if (sources.count(header) == 0) continue;
    ++checked;
    INFO(path);
    const auto first = text.find("#include");
    CHECK(text.compare(first, header.size() + 20, "#include \"tapegrad/" + header + "\"") == 0);
  }
  CHECK(checked > 100);
}

TEST_CASE("each folder includes only what its room may use", "[layers]") {
  const auto sources = read_sources(kLibraryAndPrograms);
  CHECK(sources.size() > 100);
  for (const auto& [path, text] : sources) {
    const auto rule = kMayInclude.find(folder_of(path));
    if (rule == kMayInclude.end()) {
      FAIL_CHECK(path << ": the table of this test does not say what the folder may include");
      continue;
    }
    for (const std::string& name : included(text, '"', '"')) {
      if (allowed(rule->second, source_path(name))) continue;
      FAIL_CHECK(path << " includes " << name << ", but files in " << rule->first
                      << "/ may include only " << listed(rule->second));
    }
  }
}

TEST_CASE("includes are spelled from tapegrad/ on, and name files that exist", "[layers]") {
  auto folders = kLibraryAndPrograms;
  folders.push_back("tests");
  const auto sources = read_sources(folders);
  const auto examples = read_sources({"examples"});  // users' files, whose headers are tested
  for (const auto& [path, text] : sources) {
    for (const std::string& name : included(text, '"', '"')) {
      INFO(path << " includes \"" << name << "\"");
      if (!starts_with(name, "tapegrad/")) FAIL_CHECK("files of this project are \"tapegrad/…\"");
      const std::string file = source_path(name);
      if (sources.count(file) + examples.count(file) == 0) FAIL_CHECK("there is no such file");
    }
    for (const std::string& name : included(text, '<', '>')) {
      INFO(path << " includes <" << name << ">");
      if (starts_with(name, "tapegrad/") && !starts_with(path, "tests/consumer/")) {
        FAIL_CHECK("<tapegrad/…> is for users of the library; here it is \"tapegrad/…\"");
      }
    }
  }
}

// A folder that one can see at a glance. That of ops has one for each family.
TEST_CASE("no folder but that of ops has more than 25 sources", "[layers]") {
  auto folders = kLibraryAndPrograms;
  folders.push_back("tests");
  std::map<std::string, int> sources;
  for (const auto& [path, text] : read_sources(folders)) {
    ++sources[path.substr(0, path.rfind('/'))];
  }
  for (const auto& [folder, count] : sources) {
    if (count <= 25 || folder == "autograd/ops") continue;
    FAIL_CHECK(folder << " has " << count
                      << ": put what belongs together into a folder of its own");
  }
}

TEST_CASE("no two source files share a name", "[layers]") {
  auto folders = kLibraryAndPrograms;
  folders.push_back("tests");
  std::map<std::string, Names> folders_of_stem;
  for (const auto& [path, text] : read_sources(folders)) {
    const std::string name = path.substr(path.rfind('/') + 1);
    folders_of_stem[name.substr(0, name.find('.'))].insert(folder_of(path));
  }
  for (const auto& [stem, places] : folders_of_stem) {
    if (places.size() == 1) continue;  // a header beside its source
    FAIL_CHECK("files called " << stem << " are in " << listed(places)
                               << ": a name belongs to one folder");
  }
}

TEST_CASE(
    "public headers and the tutorial include public headers, the standard library and fmt alone",
    "[layers]") {
  Names headers = public_headers();
  CHECK(headers.size() > 30);
  const auto sources = read_sources(kLibraryAndPrograms);
  Names files;
  for (const std::string& header : headers) files.insert(source_path(header));
  for (const auto& [path, text] : sources) {
    if (folder_of(path) != kTutorial) continue;
    files.insert(path);
    if (path.ends_with(".h")) headers.insert("tapegrad/" + path);  // of the folder, as sources are
  }
  headers.insert("tapegrad/tapegrad.h");
  for (const std::string& path : files) {
    const auto source = sources.find(path);
    if (source == sources.end()) {
      FAIL_CHECK(path << " is listed as a public header, but does not exist");
      continue;
    }
    for (const std::string& name : included(source->second, '"', '"')) {
      if (headers.count(name) == 1) continue;
      FAIL_CHECK(path << " is for users and includes " << name << ", which is not installed");
    }
    for (const std::string& name : included(source->second, '<', '>')) {
      const bool standard = name.find_first_of("/.") == std::string::npos;
      const bool optional = path == "autograd/tensor/eigen.h" && starts_with(name, "Eigen/");
      if (standard || optional || starts_with(name, "fmt/")) continue;
      FAIL_CHECK(path << " is for users and includes <" << name
                      << ">: users would need that library's headers, too");
    }
  }
}

// The first include of a header leads to one of its own kind, and in the end to cxx20.h. So a
// program in C++17 is told so, whichever header it includes, before anything else fails.
TEST_CASE("each public header asks for C++20 first", "[layers]") {
  const auto sources = read_sources(kLibraryAndPrograms);
  for (const std::string& header : public_headers()) {
    const auto source = sources.find(source_path(header));
    if (source == sources.end() || header == "tapegrad/base/cxx20.h") continue;
    INFO(header << " includes no header of tapegrad: if it needs none, base/cxx20.h");
    CHECK(!included(source->second, '"', '"').empty());
  }
}

TEST_CASE("threads, BLAS, oneDNN and MPI are each reached in one place", "[layers]") {
  for (const auto& [path, text] : read_sources(kLibraryAndPrograms)) {
    for (const OneDoor& door : kOneDoor) {
      const auto begins = [place = place_of(path)](const auto& file) {
        return starts_with(place, file);
      };
      if (begins(door.file) || std::any_of(door.others.begin(), door.others.end(), begins))
        continue;
      if (text.find(door.word) == std::string::npos) continue;
      FAIL_CHECK(path << " uses " << door.word << ", which may stand in " << door.file
                      << (door.file == "nowhere" ? "" : " alone"));
    }
  }
}

TEST_CASE("functions of std::filesystem have a std::error_code", "[layers]") {
  const std::string good = "std::error_code a, b; fs::exists(f(x), b); fs::directory_iterator();";
  CHECK(
      throwing_calls(good + "fs::is_directory(at->symlink_status(a)); at->is_symlink(b)").empty());
  const std::string bad = "fs::exists(x); fs::remove(x / a(y)); fs::directory_iterator(x);";
  CHECK(throwing_calls(good + bad + "fs::directory_iterator at(x, y); it->is_directory()").size() ==
        5);
  for (const auto& [path, text] : read_sources(kLibraryAndPrograms)) {
    for (const std::string& call : throwing_calls(text)) {
      FAIL_CHECK(path << ": " << call
                      << " throws an error of its own: base/file.h, or an error_code");
    }
  }
}
