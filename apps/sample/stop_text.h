#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tapegrad::sampling {

// Ends a text that arrives in pieces before the first of some texts that is found in it.
class StopText {
 public:
  explicit StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // The part of the text that may be shown now and was not shown yet: none that can be the
  // beginning of a stop.
  std::string push(std::string_view piece);
  // The rest at the end of the text.
  std::string flush();
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace tapegrad::sampling
