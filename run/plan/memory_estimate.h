#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tapegrad/comm/processes.h"
#include "tapegrad/nn/measure.h"
#include "tapegrad/nn/transformer.h"
#include "tapegrad/optim/sharing.h"
#include "tapegrad/run/plan/step_options.h"

namespace tapegrad::run {

using MemoryEstimate = nn::StepMemory;

// What a step's memory depends on, beside the model and the batch.
struct MemoryOptions {
  StepOptions step = {};
  std::optional<int64_t> block_size = {};  // tokens of a sequence [those that the model sees]
  // For another machine than this one. Otherwise a bound stands for what is far beyond this one's
  // memory, so that it takes no time.
  bool other_machine = false;
  // A model that runs beside and is not trained, as a reference or a teacher. In a dry run, its
  // store reads nothing.
  struct SecondModel {
    nn::DecoderConfig config;
    std::function<nn::Params()> params;
  };
  std::optional<SecondModel> second_model = {};
};

// For batches of `batch_size` sequences of block_size tokens.
MemoryEstimate estimate_memory(const nn::DecoderConfig& config, int64_t batch_size,
                               const MemoryOptions& options = {});

// For batches of pairs, which are padded to their longest ones and not to block_size.
struct PairSizes {
  int64_t rows, source, target;  // pairs, and tokens of each side, the end of the target included
};
MemoryEstimate estimate_memory(const nn::TransformerConfig& config, const PairSizes& batch,
                               const MemoryOptions& options = {});

// "about 2157 MB at once: weights 498, optimiser 996, activations 463; gradients take 498 while
// activations are freed"
std::string describe(const MemoryEstimate& estimate);

// The memory of each of so many processes: the optimiser's tensors and gradients of its share
// alone, and buckets on their way (optim/internal/shares.h). A share is an equal one, or, of the
// optimiser's tensors, the most that is kept for one parameter that cannot be cut. With
// Shard::parameters, its share of the weights, those of no block, and the blocks that are whole at
// once; or all weights beside the shares, as for an evaluation, if that is more. With local steps:
// all of the optimiser's tensors, the weights of the last meeting and the outer momentum of its
// share, which count as the optimiser's.
MemoryEstimate memory_of_rank(const MemoryEstimate& estimate, int ranks,
                              const optim::Sharing& sharing = {});

// Error if less memory than that is available, for so many processes on this host. Where
// `measured`, fit_steps measures steps first, which keeps a copy of the weights meanwhile.
void check_memory(const MemoryEstimate& estimate, bool measured = false, int here = 1);
// True if check_memory() would find enough, for a process or this rank of a group; true where
// nobody can tell.
bool memory_fits(const MemoryEstimate& estimate, bool measured, const Processes* processes,
                 const optim::Sharing& sharing = {});
// The memory of this rank of a group, by an estimate of one process; null: there is one alone.
// Error as check_memory.
MemoryEstimate checked_memory(const MemoryEstimate& estimate, bool measured,
                              const Processes* processes, const optim::Sharing& sharing = {});

}  // namespace tapegrad::run
