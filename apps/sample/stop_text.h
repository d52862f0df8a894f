#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tapegrad::sampling {

// Ends a text that arrives in pieces before the first of some texts that is found in it.
class StopText {
 public:
  explicit StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // What may be shown of the text so far and was not shown yet: that which cannot be the beginning
  // of a stop.
  std::string push(std::string_view piece);
  // What is left at the end of the text.
  std::string flush();
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace tapegrad::sampling
