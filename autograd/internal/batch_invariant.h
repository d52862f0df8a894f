#pragma once

namespace tapegrad {

// True if a BatchInvariant (ops.h) of this thread lives.
bool is_batch_invariant();

}  // namespace tapegrad
