// `with Tape() as tape:` and `with TapePause():`. What C++ does from a variable's construction to
// its end, Python does from the beginning of the block to its end.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tapegrad/apps/python/internal/bindings.h"
#include "tapegrad/apps/python/internal/op_support.h"
#include "tapegrad/autograd/tape.h"

namespace tapegrad::python {
namespace {

// One tensor, or several.
using Tensors = std::variant<Tensor, std::vector<Tensor>>;
std::vector<Tensor> listed(const Tensors& tensors) {
  if (const auto* one = std::get_if<Tensor>(&tensors)) return {*one};
  return std::get<std::vector<Tensor>>(tensors);
}

// An object that lives in a `with` block of one thread, which alone may end it. Python may let go
// of an abandoned block in any thread: then its own ends it when it begins another. The GIL guards
// this.
template <class Scope>
class Block {
 public:
  using Make = std::function<std::unique_ptr<Scope>()>;
  explicit Block(Make make) : make_(std::move(make)) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() {
    if (scope_ != nullptr && !is_mine()) abandoned_->scopes.push_back(std::move(scope_));
  }

  Block& enter() {
    check(scope_ == nullptr, "this block has begun already: each `with` takes a new one");
    abandoned_ = abandoned_here();
    while (!abandoned_->scopes.empty()) abandoned_->scopes.pop_back();  // the last to begin first
    scope_ = make_();
    return *this;
  }
  void exit() {
    (void)get();
    scope_ = nullptr;
  }
  Scope& get() const {
    check(scope_ != nullptr, "a tape lives in its `with` block: call this inside of it");
    check(is_mine(), "a tape belongs to the thread that made it: another thread takes its own");
    return *scope_;
  }

 private:
  struct Abandoned {
    ~Abandoned() {  // the thread is gone, and with it what the scopes would undo
      for (auto& scope : scopes) (void)scope.release();
    }
    std::vector<std::unique_ptr<Scope>> scopes;
  };
  static const std::shared_ptr<Abandoned>& abandoned_here() {
    thread_local const auto abandoned = std::make_shared<Abandoned>();
    return abandoned;
  }
  bool is_mine() const { return abandoned_ == abandoned_here(); }

  Make make_;
  std::unique_ptr<Scope> scope_;
  std::shared_ptr<Abandoned> abandoned_;  // of the thread that began the block
};

// A tape with the names that it refers to.
struct NamedTape {
  NamedTape(bool check_finite, const Parameters& parameters)
      : names(parameters), tape(TapeOptions{.check_finite = check_finite, .names = names}) {}
  const Parameters names;
  Tape tape;
};

using PythonTape = Block<NamedTape>;

std::unique_ptr<PythonTape> make_tape(bool check_finite, const Parameters& names) {
  return std::make_unique<PythonTape>(
      [=] { return std::make_unique<NamedTape>(check_finite, names); });
}

template <class Scope>
py::class_<Block<Scope>> bind_block(py::module_& m, const char* name, const char* help) {
  py::class_<Block<Scope>> c(m, name, help);
  c.def("__enter__", &Block<Scope>::enter, py::return_value_policy::reference);
  c.def("__exit__", [](Block<Scope>& block, const py::args&) { block.exit(); });
  return c;
}

BackwardOptions backward_options(const std::optional<Tensors>& seeds, bool keep) {
  return {.seeds = seeds ? listed(*seeds) : std::vector<Tensor>(), .keep = keep};
}

void backward(const PythonTape& tape, const Tensors& roots, const std::optional<Tensors>& seeds,
              bool keep, const std::optional<Callable>& take) {
  Tape& running = tape.get().tape;
  auto options = backward_options(seeds, keep);
  if (take) {
    options.take = [f = *take](const Tensor& parameter, Tensor gradient) {
      // As for grad(): what others can see, such as a seed, must not change with it.
      if (!gradient.sole_owner()) gradient = gradient.clone();
      const py::gil_scoped_acquire locked;
      f.handle()(parameter, gradient);
    };
  }
  const py::gil_scoped_release unlocked;
  running.backward(listed(roots), options);
}

// One gradient for one tensor, and a list for a list.
py::object gradient(const PythonTape& tape, const Tensors& roots, const Tensors& wrt,
                    const std::optional<Tensors>& seeds, bool keep) {
  Tape& running = tape.get().tape;
  const auto options = backward_options(seeds, keep);
  Grads found;
  {
    const py::gil_scoped_release unlocked;
    found = running.gradient(listed(roots), listed(wrt), options);
  }
  if (std::holds_alternative<Tensor>(wrt)) return or_none(found[0]);
  return or_none(found);
}

}  // namespace

void bind_tape(py::module_& m) {
  bind_block<TapePause>(m, "TapePause",
                        "In `with TapePause():`, the tapes that are live record nothing.")
      .def(py::init([] {
        return std::make_unique<Block<TapePause>>([] { return std::make_unique<TapePause>(); });
      }));
  bind_block<NamedTape>(
      m, "Tape",
      "In `with Tape() as tape:`, each op of this thread on a tracked tensor is recorded: on a "
      "parameter (requires_grad), a watched tensor, or a result of a recorded op. Tapes nest, "
      "which gives derivatives of any order. With check_finite, the first result or gradient that "
      "is NaN or infinite is an Error; `names` names parameters in it.")
      .def(py::init(&make_tape), py::kw_only(), py::arg("check_finite") = false,
           py::arg("names") = py::dict())
      .def(
          "watch", [](const PythonTape& tape, const Tensor& t) { tape.get().tape.watch(t); },
          py::arg("x"), "Tracks a tensor that is not a parameter.")
      .def(
          "tracks",
          [](const PythonTape& tape, const Tensor& t) { return tape.get().tape.tracks(t); },
          py::arg("x"), "True if an op on x would be recorded.")
      .def("backward", &backward, py::arg("roots"), py::arg("seeds") = py::none(),
           py::arg("keep") = false, py::arg("take") = py::none(),
           "Adds d(root)/d(parameter) to the grad of each parameter that the root depends on. "
           "`seeds`, the gradients to start from, may be left out for scalars. Frees the record "
           "unless `keep`. With take(parameter, gradient), nothing is added: it gets each gradient "
           "as soon as that is complete, while backward goes on.")
      .def("gradient", &gradient, py::arg("roots"), py::arg("wrt"), py::arg("seeds") = py::none(),
           py::arg("keep") = false,
           "The gradients of the roots' sum with respect to each of `wrt`, without touching any "
           "grad. None for one that the roots do not depend on.")
      .def(
          "size", [](const PythonTape& tape) { return tape.get().tape.size(); },
          "How many ops were recorded.")
      .def(
          "saved_bytes", [](const PythonTape& tape) { return tape.get().tape.saved_bytes(); },
          "Bytes of the tensors that the tape keeps for backward.");
}

}  // namespace tapegrad::python
