// Batches of arrays.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tapegrad/apps/python/internal/bindings.h"
#include "tapegrad/arrays/array_loader.h"

namespace tapegrad::python {
namespace {

using arrays::ArrayLoader;
using arrays::Rows;

// f(rows, rng), which returns other rows.
std::function<Rows(Rows, Rng&)> transform_of(const Callable& f) {
  return [f](const Rows& rows, Rng& rng) {
    const py::object changed = f.handle()(rows, Rng(rng));  // a copy: Python may hold on to it
    py::detail::make_caster<Rows> read;
    if (!read.load(changed, true)) {
      throw py::type_error("transform must return a list of tensors");
    }
    return py::detail::cast_op<Rows>(std::move(read));
  };
}

// Without `background`: a thread that calls Python could wait for one that ends the loader.
std::unique_ptr<ArrayLoader> make(const Rows& arrays, const Rng& rng, std::int64_t batch_size,
                                  bool shuffle, const std::vector<double>& weights, bool drop_last,
                                  const std::optional<Callable>& transform) {
  ArrayLoader::Options options{
      .batch_size = batch_size, .shuffle = shuffle, .weights = weights, .drop_last = drop_last};
  if (transform) options.transform = transform_of(*transform);
  return std::make_unique<ArrayLoader>(arrays, std::move(options), rng);
}

}  // namespace

void bind_loader(py::module_& m) {
  py::class_<ArrayLoader>(m, "ArrayLoader",
                          "Endless batches of rows of several arrays, epoch after epoch, as lists "
                          "of tensors; those of PyTorch's DataLoader for the same seed. One that "
                          "has transform(rows, rng) makes something else of each, by random "
                          "numbers that follow from epoch and batch alone.")
      .def(py::init(&make), py::arg("arrays"), py::arg("rng"), py::kw_only(),
           py::arg("batch_size") = 1, py::arg("shuffle") = true,
           py::arg("weights") = std::vector<double>(), py::arg("drop_last") = false,
           py::arg("transform") = py::none(),
           "The generator is copied. With `weights`, a number for each row, each epoch draws as "
           "many rows in proportion to them, with repetitions. `drop_last` leaves out the last "
           "batch of an epoch if it is not full.")
      // With the GIL: two threads that share a loader take turns, unless a transform lets go of it.
      .def("next", &ArrayLoader::next,
           "The next batch. With `transform`, a loader is for one thread: others may get the same.")
      .def("__next__", &ArrayLoader::next)
      .def("__iter__", [](py::object self) { return self; })
      .def("batches_per_epoch", &ArrayLoader::batches_per_epoch)
      .def("epoch", &ArrayLoader::epoch, "How many epochs are complete.")
      .def("state", &ArrayLoader::state, "A line of text that decides all later batches.")
      .def("set_state", &ArrayLoader::set_state, py::arg("saved"), "Goes on from there.");
}

}  // namespace tapegrad::python
