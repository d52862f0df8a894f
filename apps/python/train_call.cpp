// Trainings by the program's own code, with Python's output, signals and callback.

#include <pybind11/stl/filesystem.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/apps/python/internal/bindings.h"
#include "tapegrad/apps/train/train_command.h"
#include "tapegrad/apps/watch/report/report_html.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/base/terminal.h"

namespace tapegrad::python {
namespace {

// Functions of Python's that C++ calls without the GIL. The first exception of one ends the run,
// which is saved, and comes out behind it.
class Calls {
 public:
  template <class... Arguments>
  void call(const Callable& f, const Arguments&... arguments) {
    const py::gil_scoped_acquire locked;
    try {
      f.handle()(arguments...);
    } catch (const py::error_already_set&) {
      if (!raised_) raised_ = std::current_exception();
      interrupt("a function of Python's has raised an exception");
    }
  }
  void rethrow() const {
    if (raised_) std::rethrow_exception(raised_);
  }

 private:
  std::exception_ptr raised_;
};

// Each step, evaluation and sample: on_step(iteration, {name: value}, folder).
class StepObserver : public run::RunFolder::Observer {
 public:
  StepObserver(Calls& calls, Callable on_step, std::filesystem::path folder)
      : calls_(calls), on_step_(std::move(on_step)), folder_(std::move(folder)) {}

  void step(const run::RunFolder::Metrics& line) override {
    const py::gil_scoped_acquire locked;
    py::dict numbers;
    for (const auto& [name, value] : line) numbers[py::str(name)] = value;
    const py::object iteration = numbers.attr("pop")("iteration");
    calls_.call(on_step_, iteration, numbers, folder_);
  }
  void metrics(const run::RunFolder::Metrics& line) override {
    const bool is_step = std::any_of(line.begin(), line.end(),
                                     [](const auto& number) { return number.first == "ms"; });
    if (!is_step) step(line);
  }
  void layers(std::int64_t, const std::vector<run::LayerMeans>&) override {}

 private:
  Calls& calls_;
  const Callable on_step_;
  const std::filesystem::path folder_;
};

// While one lives, the process trains: what is printed goes to Python, and Ctrl-C also stops the
// run. At its end, all is as it was before.
class Session {
 public:
  Session(Calls& calls, const Callable& print, const Callable& print_error) {
    redirect_output(told_to(calls, print));
    redirect_errors(told_to(calls, print_error));
  }
  ~Session() {
    redirect_output({});
    redirect_errors({});
    set_num_threads(threads_);
    set_gemm_library(GemmLibrary::automatic);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  // Names of files in the text may have any bytes.
  static std::function<void(const std::string&)> told_to(Calls& calls, const Callable& print) {
    return [&calls, print](const std::string& text) {
      const py::gil_scoped_acquire locked;
      calls.call(print, text_of_bytes(text));
    };
  }

  const int threads_ = num_threads();
  const SharedInterrupts interrupts_;
};

// A process joins others, of mpirun, once in its life.
Processes& processes() {
  static Processes* const joined = Processes::join().release();
  check(joined->alone(),
        "[train] several processes train by the command line: mpirun -n {} tapegrad train",
        joined->size());
  return *joined;
}

// The folder of the run. The words are those of the command line.
std::filesystem::path train(const std::vector<std::string>& words, const Callable& on_step,
                            const Callable& print, const Callable& print_error) {
  static std::atomic<bool> busy{false};
  check(!busy.exchange(true), "[train] this process trains already: one run at a time");
  const std::unique_ptr<std::atomic<bool>, void (*)(std::atomic<bool>*)> end(
      &busy, [](std::atomic<bool>* flag) { *flag = false; });
  std::vector<const char*> arguments = {"train"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  Calls calls;
  std::filesystem::path folder;
  {
    const py::gil_scoped_release unlocked;
    const Session session(calls, print, print_error);
    const cli::Call call{"tapegrad train", static_cast<int>(arguments.size()), arguments.data()};
    gpt::train_with(call, processes(), [&](run::RunFolder& run) {
      folder = run.path();
      run.observe(std::make_unique<StepObserver>(calls, on_step, folder));
    });
  }
  calls.rethrow();
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  return folder;
}

std::vector<std::string> train_options() {
  const gpt::Options options;
  return cli::option_names(options);
}

}  // namespace

void bind_train(py::module_& m) {
  bind_error<cli::UsageError>(m, "_UsageError", m.attr("Error"));
  m.def("_train", &train);
  m.def("_train_options", &train_options);
  m.def("_loss_page", [](const std::filesystem::path& folder) {
    return text_of_bytes(watch::loss_page(folder));
  });
}

}  // namespace tapegrad::python
