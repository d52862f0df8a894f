// What is reached in one place alone.

#include <algorithm>
#include <regex>

#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/sources.h"

using namespace tapegrad::testing;

namespace {

// Words that stand for a library or a facility of the system, and the only file that may use them,
// or the beginning of its name: everybody else goes through that file's functions. Threads compute
// in one file. The others have the one that makes the next batch of arrays, the one that calls MPI,
// the one that speaks HTTP, and the one that reads requests to a model: they must go on while the
// program computes, which a loop of the pool could not. Weights that are shared out keep the id of
// the thread that may ask for them.
struct OneDoor {
  std::string word, file;
  std::vector<std::string> others = {};
};
const std::vector<OneDoor> kOneDoor = {
    {"std::thread",
     "base/parallel.cpp",
     {"arrays/array_loader.cpp", "comm/mpi_processes.cpp", "apps/http/listener",
      "apps/serve/work_thread", "optim/processes/shared_weights"}},
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

// The path that a file would have without a folder for internal headers.
std::string place_of(const std::string& path) {
  return folder_of(path) + path.substr(path.rfind('/'));
}

}  // namespace

TEST_CASE("threads, BLAS, oneDNN and MPI are each reached in one place", "[layers]") {
  for (const auto& [path, text] : read_sources(kLibraryAndPrograms)) {
    for (const OneDoor& door : kOneDoor) {
      const auto begins = [place = place_of(path)](const auto& file) {
        return place.starts_with(file);
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
