#pragma once

namespace tapegrad {

// Bytes per second at which all threads together read memory: the limit of a product with one
// column. The best of some passes over 256 MB, which take about a tenth of a second. (Copying and
// writing are slower.)
double read_rate();

}  // namespace tapegrad
