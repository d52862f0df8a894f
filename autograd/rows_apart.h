#pragma once

namespace tapegrad {

// Whether a RowsApart (ops.h) of this thread lives.
bool rows_are_apart();

}  // namespace tapegrad
