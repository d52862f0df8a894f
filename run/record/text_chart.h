#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::run {

struct ChartPoint {
  double x, y;
};

// A chart of at most `height` lines of at most `width` characters, without ends of lines: `curve`
// is a line of braille dots, each of the `marks` an "o". The last line has the range of x and
// `caption`, the others that of y. Points must be in the order of x; one that is not finite is left
// out. Nothing if there is no point, or no room: 24 characters and 4 lines.
std::vector<std::string> text_chart(const std::vector<ChartPoint>& curve,
                                    const std::vector<ChartPoint>& marks,
                                    const std::string& caption, int width, int height);

// The losses of a run for its chart. It has bounded memory: of a long run, a point is the mean of
// several steps.
class LossChart {
 public:
  void add(std::int64_t step, double loss);
  void add_val(std::int64_t step, double val_loss);
  std::vector<std::string> draw(int width, int height) const;

 private:
  // Means of `every` points each.
  struct Series {
    void add(std::int64_t step, double value);
    std::vector<ChartPoint> points = {};  // their means: the last one may be of fewer
    std::int64_t every = 1, in_last = 0;
  };
  Series loss_, val_;
};

}  // namespace tapegrad::run
