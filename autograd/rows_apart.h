#pragma once

namespace tapegrad {

// True if a RowsApart (ops.h) of this thread lives.
bool rows_are_apart();

}  // namespace tapegrad
