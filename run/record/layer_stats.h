#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/comm/processes.h"
#include "tapegrad/optim/gradient_sync.h"
#include "tapegrad/run/folder/layer_means.h"

namespace tapegrad::run {

// Tells how large gradients, weights and updates are, module by module, to see where a model does
// not learn. Only parameters that are trained count. One without a gradient has a mean of 0.
//
// Of a parameter of n elements, every s-th one is looked at, s = ⌈n / 65,536⌉, so that a step of a
// large model takes hardly longer: all elements of a small parameter, and 32,769 to 65,536 of a
// large one. The parameters of a module count by their sizes. Nothing is changed, and sums are
// made in chunks of a fixed size: the means do not depend on the numbers of threads and processes.
class LayerStats {
 public:
  // `parameters` are what the updates change. Of several processes, only rank 0 will have the
  // means. Every `every` steps, they are due.
  LayerStats(const NamedTensors& parameters, Processes* processes, std::int64_t every = 1);

  bool due(std::int64_t iteration) const { return iteration % every_ == 0; }

  // (all) Between measure_clipping() and step() of `sync`.
  void before(const optim::GradientSync& sync);
  // After step(), or in its place. In the order of the model; of ranks other than 0, nothing.
  std::vector<LayerMeans> after();

 private:
  struct Sampled {
    Tensor parameter;
    std::size_t module;       // index in modules_
    std::int64_t step;        // every so many-th element is looked at
    std::size_t first_chunk;  // of the sums over this parameter
    Tensor before;            // the elements that are looked at

    std::int64_t samples() const { return samples_before(parameter.numel()); }
    // The number of samples before that element.
    std::int64_t samples_before(std::int64_t element) const { return (element + step - 1) / step; }
  };
  using Sums = std::vector<double>;  // of all chunks of all parameters

  template <class Term>
  void add_up(const Sampled& of, std::int64_t begin, std::int64_t size, Sums& sums,
              const Term& term) const;
  std::vector<double> means(const Sums& sums) const;  // of each module

  Processes* processes_;
  const std::int64_t every_;
  std::vector<std::string> modules_;
  std::vector<double> sizes_;  // elements of each module
  std::vector<Sampled> sampled_;
  std::size_t chunks_ = 0;
  Sums gradient_, weight_;
};

}  // namespace tapegrad::run
